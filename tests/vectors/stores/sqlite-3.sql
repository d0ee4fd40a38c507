PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE mintage_schema (version INTEGER NOT NULL CHECK (version > 0)) STRICT;
INSERT INTO mintage_schema VALUES(3);
CREATE TABLE mintage_pool (
    pool TEXT NOT NULL,
    region TEXT NOT NULL,
    block_start INTEGER NOT NULL CHECK (block_start >= 0),
    block_len INTEGER NOT NULL CHECK (block_len > 0),
    inc INTEGER NOT NULL CHECK (inc > 0),
    floor_min_ms INTEGER NOT NULL CHECK (floor_min_ms >= 0),
    window_max_ms INTEGER NOT NULL CHECK (window_max_ms > 0),
    ahead_max_ms INTEGER NOT NULL CHECK (ahead_max_ms >= 0),
    guard_ms INTEGER NOT NULL CHECK (guard_ms >= 0),
    granted_at_ms INTEGER NOT NULL CHECK (granted_at_ms >= 0),
    PRIMARY KEY (pool, region)
) STRICT, WITHOUT ROWID;
INSERT INTO mintage_pool VALUES('main','',0,4,1,0,60000,2000,1000,1800000002000);
CREATE TABLE mintage_worker (
    pool TEXT NOT NULL,
    region TEXT NOT NULL,
    worker INTEGER NOT NULL CHECK (worker >= 0),
    inc INTEGER NOT NULL CHECK (inc >= 0),
    epoch INTEGER NOT NULL CHECK (epoch >= 0),
    holder BLOB CHECK (holder IS NULL OR length(holder) = 16),
    instance TEXT NOT NULL,
    start_ms INTEGER NOT NULL CHECK (start_ms >= 0),
    floor_ms INTEGER NOT NULL CHECK (floor_ms >= 0),
    expires_ms INTEGER NOT NULL CHECK (expires_ms >= 0),
    free_after_ms INTEGER NOT NULL CHECK (free_after_ms >= 0),
    revoked INTEGER NOT NULL CHECK (revoked IN (0, 1)),
    holder_clock_ms INTEGER NOT NULL CHECK (holder_clock_ms >= 0),
    renewed_ms INTEGER NOT NULL CHECK (renewed_ms >= 0),
    PRIMARY KEY (pool, region, worker)
) STRICT, WITHOUT ROWID;
INSERT INTO mintage_worker VALUES('main','',0,1,1,X'00000000000000000000000000000002','host-1',1800000000000,1800000062000,1800000012000,0,0,1800000000000,1800000002000);
INSERT INTO mintage_worker VALUES('main','',1,1,1,NULL,'host-2',1800000001000,1800000006000,0,1800000001000,0,1800000000000,1800000001000);
CREATE TABLE mintage_grant (
    pool TEXT NOT NULL,
    region TEXT NOT NULL,
    worker INTEGER NOT NULL CHECK (worker >= 0),
    inc INTEGER NOT NULL CHECK (inc > 0),
    epoch INTEGER NOT NULL CHECK (epoch > 0),
    instance TEXT NOT NULL,
    from_ms INTEGER NOT NULL CHECK (from_ms >= 0),
    to_ms INTEGER NOT NULL CHECK (to_ms >= from_ms),
    PRIMARY KEY (pool, region, worker, inc, epoch)
) STRICT, WITHOUT ROWID;
INSERT INTO mintage_grant VALUES('main','',0,1,1,'host-1',1800000000000,1800000062000);
INSERT INTO mintage_grant VALUES('main','',1,1,1,'host-2',1800000001000,1800000006000);
CREATE TABLE mintage_sequence (
    name TEXT NOT NULL PRIMARY KEY,
    last INTEGER NOT NULL CHECK (last >= -1),
    version INTEGER NOT NULL CHECK (version >= 0)
) STRICT, WITHOUT ROWID;
INSERT INTO mintage_sequence VALUES('orders',1014,4294967299);
CREATE TABLE mintage_range_key (
    sequence TEXT NOT NULL,
    key TEXT NOT NULL,
    asked INTEGER NOT NULL CHECK (asked > 0),
    first INTEGER NOT NULL CHECK (first >= 0),
    last INTEGER NOT NULL CHECK (last >= first),
    version INTEGER NOT NULL CHECK (version > 0),
    made_ms INTEGER NOT NULL CHECK (made_ms >= 0),
    PRIMARY KEY (sequence, key)
) STRICT, WITHOUT ROWID;
INSERT INTO mintage_range_key VALUES('orders','order-7',10,1000,1009,4294967297,1800000000000);
CREATE TABLE mintage_format (
    entity TEXT NOT NULL PRIMARY KEY,
    format TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO mintage_format VALUES('orders',replace('scheme=segment\nstart=1','\n',char(10)));
CREATE TABLE mintage_token (
    entity TEXT NOT NULL,
    id TEXT NOT NULL,
    hash BLOB NOT NULL CHECK (length(hash) = 32),
    scopes TEXT NOT NULL,
    label TEXT NOT NULL,
    issued_ms INTEGER NOT NULL CHECK (issued_ms >= 0),
    expires_ms INTEGER CHECK (expires_ms IS NULL OR expires_ms >= 0),
    revoked_ms INTEGER CHECK (revoked_ms IS NULL OR revoked_ms >= 0),
    PRIMARY KEY (entity, id)
) STRICT, WITHOUT ROWID;
INSERT INTO mintage_token VALUES('api_keys','7km1dzhm',X'0707070707070707070707070707070707070707070707070707070707070707','orders:read','',1800000000000,NULL,NULL);
CREATE TABLE mintage_stopped (name TEXT NOT NULL PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TABLE mintage_range (
    sequence TEXT NOT NULL,
    first INTEGER NOT NULL CHECK (first >= 0),
    last INTEGER NOT NULL CHECK (last >= first),
    version INTEGER NOT NULL CHECK (version > 0),
    instance TEXT NOT NULL,
    at_ms INTEGER NOT NULL CHECK (at_ms >= 0),
    PRIMARY KEY (sequence, first, version)
) STRICT, WITHOUT ROWID;
INSERT INTO mintage_range VALUES('orders',1,10,1,'billing-3',1800000000000);
INSERT INTO mintage_range VALUES('orders',1000,1009,4294967297,'billing-3',1800000000000);
INSERT INTO mintage_range VALUES('orders',1010,1014,4294967298,'billing-3',1800000000000);
CREATE INDEX mintage_grant_by_end ON mintage_grant (pool, region, to_ms);
CREATE INDEX mintage_range_key_by_time ON mintage_range_key (made_ms);
CREATE INDEX mintage_range_key_by_version ON mintage_range_key (sequence, version);
CREATE UNIQUE INDEX mintage_token_by_hash ON mintage_token (entity, hash);
CREATE INDEX mintage_range_by_time ON mintage_range (sequence, at_ms);
COMMIT;

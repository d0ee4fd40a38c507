CREATE TABLE mintage_pool (
    pool TEXT NOT NULL,
    region TEXT NOT NULL,
    block_start BIGINT NOT NULL CHECK (block_start >= 0),
    block_len BIGINT NOT NULL CHECK (block_len > 0),
    incarnation TEXT NOT NULL,
    inc BIGINT NOT NULL CHECK (inc > 0),
    floor_min_ms BIGINT NOT NULL CHECK (floor_min_ms >= 0),
    window_max_ms BIGINT NOT NULL CHECK (window_max_ms > 0),
    ahead_max_ms BIGINT NOT NULL CHECK (ahead_max_ms >= 0),
    guard_ms BIGINT NOT NULL CHECK (guard_ms >= 0),
    granted_at_ms BIGINT NOT NULL CHECK (granted_at_ms >= 0),
    PRIMARY KEY (pool, region)
) WITH (fillfactor = 50);

CREATE TABLE mintage_worker (
    pool TEXT NOT NULL,
    region TEXT NOT NULL,
    worker BIGINT NOT NULL CHECK (worker >= 0),
    inc BIGINT NOT NULL CHECK (inc >= 0),
    epoch BIGINT NOT NULL CHECK (epoch >= 0),
    holder BYTEA CHECK (octet_length(holder) = 16),
    instance TEXT NOT NULL,
    start_ms BIGINT NOT NULL CHECK (start_ms >= 0),
    floor_ms BIGINT NOT NULL CHECK (floor_ms >= 0),
    expires_ms BIGINT NOT NULL CHECK (expires_ms >= 0),
    free_after_ms BIGINT NOT NULL CHECK (free_after_ms >= 0),
    revoked BIGINT NOT NULL CHECK (revoked IN (0, 1)),
    holder_clock_ms BIGINT NOT NULL CHECK (holder_clock_ms >= 0),
    renewed_ms BIGINT NOT NULL CHECK (renewed_ms >= 0),
    PRIMARY KEY (pool, region, worker)
) WITH (fillfactor = 50);

CREATE TABLE mintage_grant (
    pool TEXT NOT NULL,
    region TEXT NOT NULL,
    worker BIGINT NOT NULL CHECK (worker >= 0),
    inc BIGINT NOT NULL CHECK (inc > 0),
    epoch BIGINT NOT NULL CHECK (epoch > 0),
    instance TEXT NOT NULL,
    from_ms BIGINT NOT NULL CHECK (from_ms >= 0),
    to_ms BIGINT NOT NULL CHECK (to_ms >= from_ms),
    PRIMARY KEY (pool, region, worker, inc, epoch)
);
CREATE INDEX mintage_grant_by_end ON mintage_grant (pool, region, to_ms);

CREATE TABLE mintage_sequence (
    name TEXT NOT NULL PRIMARY KEY,
    incarnation TEXT NOT NULL,
    last BIGINT NOT NULL CHECK (last >= -1),
    version BIGINT NOT NULL CHECK (version >= 0)
) WITH (fillfactor = 50);

CREATE TABLE mintage_range_key (
    sequence TEXT NOT NULL,
    request_key TEXT NOT NULL,
    asked BIGINT NOT NULL CHECK (asked > 0),
    first BIGINT NOT NULL CHECK (first >= 0),
    last BIGINT NOT NULL CHECK (last >= first),
    version BIGINT NOT NULL CHECK (version > 0),
    made_ms BIGINT NOT NULL CHECK (made_ms >= 0),
    PRIMARY KEY (sequence, request_key)
);
CREATE INDEX mintage_range_key_by_time ON mintage_range_key (sequence, made_ms);
CREATE INDEX mintage_range_key_by_version ON mintage_range_key (sequence, version);

CREATE TABLE mintage_format (
    entity TEXT NOT NULL PRIMARY KEY,
    format TEXT NOT NULL
);

CREATE TABLE mintage_token (
    entity TEXT NOT NULL,
    id TEXT NOT NULL,
    hash BYTEA NOT NULL CHECK (octet_length(hash) = 32),
    scopes TEXT NOT NULL,
    label TEXT NOT NULL,
    issued_ms BIGINT NOT NULL CHECK (issued_ms >= 0),
    expires_ms BIGINT CHECK (expires_ms >= 0),
    revoked_ms BIGINT CHECK (revoked_ms >= 0),
    PRIMARY KEY (entity, id),
    UNIQUE (entity, hash)
);

CREATE TABLE mintage_schema (version BIGINT NOT NULL PRIMARY KEY CHECK (version > 0));
INSERT INTO mintage_schema (version) VALUES (1);

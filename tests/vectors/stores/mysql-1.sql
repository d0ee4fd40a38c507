CREATE TABLE IF NOT EXISTS mintage_pool (
    pool VARBINARY(255) NOT NULL,
    region VARBINARY(255) NOT NULL,
    block_start BIGINT NOT NULL CHECK (block_start >= 0),
    block_len BIGINT NOT NULL CHECK (block_len > 0),
    incarnation VARBINARY(255) NOT NULL,
    inc BIGINT NOT NULL CHECK (inc > 0),
    floor_min_ms BIGINT NOT NULL CHECK (floor_min_ms >= 0),
    window_max_ms BIGINT NOT NULL CHECK (window_max_ms > 0),
    ahead_max_ms BIGINT NOT NULL CHECK (ahead_max_ms >= 0),
    guard_ms BIGINT NOT NULL CHECK (guard_ms >= 0),
    granted_at_ms BIGINT NOT NULL CHECK (granted_at_ms >= 0),
    PRIMARY KEY (pool, region)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS mintage_worker (
    pool VARBINARY(255) NOT NULL,
    region VARBINARY(255) NOT NULL,
    worker BIGINT NOT NULL CHECK (worker >= 0),
    inc BIGINT NOT NULL CHECK (inc >= 0),
    epoch BIGINT NOT NULL CHECK (epoch >= 0),
    holder BINARY(16),
    instance TEXT CHARACTER SET utf8mb4 NOT NULL,
    start_ms BIGINT NOT NULL CHECK (start_ms >= 0),
    floor_ms BIGINT NOT NULL CHECK (floor_ms >= 0),
    expires_ms BIGINT NOT NULL CHECK (expires_ms >= 0),
    free_after_ms BIGINT NOT NULL CHECK (free_after_ms >= 0),
    revoked BIGINT NOT NULL CHECK (revoked IN (0, 1)),
    holder_clock_ms BIGINT NOT NULL CHECK (holder_clock_ms >= 0),
    renewed_ms BIGINT NOT NULL CHECK (renewed_ms >= 0),
    PRIMARY KEY (pool, region, worker)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS mintage_grant (
    pool VARBINARY(255) NOT NULL,
    region VARBINARY(255) NOT NULL,
    worker BIGINT NOT NULL CHECK (worker >= 0),
    inc BIGINT NOT NULL CHECK (inc > 0),
    epoch BIGINT NOT NULL CHECK (epoch > 0),
    instance TEXT CHARACTER SET utf8mb4 NOT NULL,
    from_ms BIGINT NOT NULL CHECK (from_ms >= 0),
    to_ms BIGINT NOT NULL CHECK (to_ms >= from_ms),
    PRIMARY KEY (pool, region, worker, inc, epoch),
    INDEX mintage_grant_by_end (pool, region, to_ms)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS mintage_sequence (
    name VARBINARY(255) NOT NULL PRIMARY KEY,
    incarnation VARBINARY(255) NOT NULL,
    last BIGINT NOT NULL CHECK (last >= -1),
    version BIGINT NOT NULL CHECK (version >= 0)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS mintage_range_key (
    sequence VARBINARY(255) NOT NULL,
    request_key VARBINARY(200) NOT NULL,
    asked BIGINT NOT NULL CHECK (asked > 0),
    first BIGINT NOT NULL CHECK (first >= 0),
    last BIGINT NOT NULL CHECK (last >= first),
    version BIGINT NOT NULL CHECK (version > 0),
    made_ms BIGINT NOT NULL CHECK (made_ms >= 0),
    PRIMARY KEY (sequence, request_key),
    INDEX mintage_range_key_by_time (sequence, made_ms),
    INDEX mintage_range_key_by_version (sequence, version)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS mintage_format (
    entity VARBINARY(255) NOT NULL PRIMARY KEY,
    format TEXT CHARACTER SET utf8mb4 NOT NULL
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS mintage_token (
    entity VARBINARY(255) NOT NULL,
    id VARBINARY(32) NOT NULL,
    hash BINARY(32) NOT NULL,
    scopes TEXT CHARACTER SET utf8mb4 NOT NULL,
    label TEXT CHARACTER SET utf8mb4 NOT NULL,
    issued_ms BIGINT NOT NULL CHECK (issued_ms >= 0),
    expires_ms BIGINT CHECK (expires_ms >= 0),
    revoked_ms BIGINT CHECK (revoked_ms >= 0),
    PRIMARY KEY (entity, id),
    UNIQUE (entity, hash)
) ENGINE = InnoDB;

CREATE TABLE mintage_schema (version BIGINT NOT NULL PRIMARY KEY CHECK (version > 0)) ENGINE = InnoDB SELECT 1 AS version;

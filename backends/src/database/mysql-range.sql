CREATE TABLE IF NOT EXISTS mintage_range (
    sequence VARBINARY(255) NOT NULL,
    first BIGINT NOT NULL CHECK (first >= 0),
    last BIGINT NOT NULL CHECK (last >= first),
    version BIGINT NOT NULL CHECK (version > 0),
    instance TEXT CHARACTER SET utf8mb4 NOT NULL,
    at_ms BIGINT NOT NULL CHECK (at_ms >= 0),
    PRIMARY KEY (sequence, first, version),
    INDEX mintage_range_by_time (sequence, at_ms)
) ENGINE = InnoDB;


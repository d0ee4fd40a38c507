CREATE TABLE IF NOT EXISTS mintage_range (
    sequence TEXT NOT NULL,
    first BIGINT NOT NULL CHECK (first >= 0),
    last BIGINT NOT NULL CHECK (last >= first),
    version BIGINT NOT NULL CHECK (version > 0),
    instance TEXT NOT NULL,
    at_ms BIGINT NOT NULL CHECK (at_ms >= 0),
    PRIMARY KEY (sequence, first, version)
);
CREATE INDEX IF NOT EXISTS mintage_range_by_time ON mintage_range (sequence, at_ms);


CREATE TABLE IF NOT EXISTS mintage_reservation (
    sequence TEXT NOT NULL,
    number BIGINT NOT NULL CHECK (number >= 0),
    state TEXT NOT NULL CHECK (state IN ('open', 'confirmed', 'void')),
    note TEXT NOT NULL,
    reserved_ms BIGINT NOT NULL CHECK (reserved_ms >= 0),
    settled_ms BIGINT CHECK (settled_ms >= 0),
    reason TEXT,
    PRIMARY KEY (sequence, number)
);

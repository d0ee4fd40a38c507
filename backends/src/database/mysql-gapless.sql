CREATE TABLE IF NOT EXISTS mintage_reservation (
    sequence VARBINARY(255) NOT NULL,
    number BIGINT NOT NULL CHECK (number >= 0),
    state VARBINARY(16) NOT NULL CHECK (state IN ('open', 'confirmed', 'void')),
    note TEXT CHARACTER SET utf8mb4 NOT NULL,
    reserved_ms BIGINT NOT NULL CHECK (reserved_ms >= 0),
    settled_ms BIGINT CHECK (settled_ms >= 0),
    reason TEXT CHARACTER SET utf8mb4,
    PRIMARY KEY (sequence, number)
) ENGINE = InnoDB;

-- Mints ids of the entity {entity} inside PostgreSQL, as worker id {shard}: layout {layout}, epoch {epoch_ms} ms after 1970.
-- Install it in one database of one server, and no other copy of it under the same worker id. No process may lease that id.
CREATE SEQUENCE {last} AS bigint MINVALUE 0 START WITH 0 CACHE 1;

-- The sequence holds the last id's time unit and number within it. Sequences are written to the log before a commit that saw
-- them is acknowledged, and no rollback takes them back.
CREATE FUNCTION {next}() RETURNS bigint LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT AS $mintage$
DECLARE
    turn CONSTANT bigint := ({lock}::bigint << 32) | '{last}'::regclass::oid::bigint;
    now_unit bigint;
    state bigint;
    unit bigint;
BEGIN
    -- One caller at a time, for microseconds and not until its commit. A block of its own: an error or a cancelled statement
    -- gives the turn back as well.
    BEGIN
        PERFORM pg_advisory_lock(turn);
        now_unit := floor((extract(epoch FROM clock_timestamp()) * 1000 - {epoch_ms}) / {unit_ms})::bigint;
        SELECT last_value + CASE WHEN is_called THEN 1 ELSE 0 END INTO state FROM {last};
        state := greatest(state, now_unit << {sequence_bits});
        unit := state >> {sequence_bits};
        IF now_unit < 0 THEN
            RAISE EXCEPTION 'the clock shows a time before the epoch of {entity}: set the clock';
        END IF;
        IF unit > {time_max} THEN
            RAISE EXCEPTION 'the time field of {entity} is used up: plan a new layout';
        END IF;
        IF (unit - now_unit) * {unit_ms} > {drift_ms} THEN
            RAISE EXCEPTION 'the clock went back % ms and at most {drift_ms} ms are allowed: wait until it has caught up',
                (unit - now_unit) * {unit_ms};
        END IF;
        PERFORM setval('{last}', state);
        PERFORM pg_advisory_unlock(turn);
    EXCEPTION WHEN query_canceled OR OTHERS THEN
        IF EXISTS (
            SELECT 1 FROM pg_locks
            WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND objsubid = 1
              AND ((classid::bigint << 32) | objid::bigint) = turn
        ) THEN
            PERFORM pg_advisory_unlock(turn);
        END IF;
        RAISE;
    END;
    RETURN (unit << {time_shift}) | ({shard}::bigint << {worker_shift}) | ((state & {sequence_max}) << {sequence_shift});
END
$mintage$;

-- Its callers need no right on the sequence: nobody but the owner can set it back. `mintage` stands for the user that inserts.
REVOKE ALL ON FUNCTION {next}() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION {next}() TO mintage;

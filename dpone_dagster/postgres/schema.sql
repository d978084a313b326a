-- The state tables, as numbered upgrades: `version_<n>` leads from version n - 1 to version n. Never change a block that
-- was released; add the next one.

-- name: version
SELECT /* dpone:state_version */ version FROM {schema}.__dpone__schema_version

-- name: has_table
SELECT /* dpone:state_present */ EXISTS (
    SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %(schema)s AND c.relname = %(table)s AND c.relkind IN ('r', 'p')
)

-- name: has_schema
SELECT /* dpone:state_schema_present */ EXISTS (SELECT FROM pg_namespace WHERE nspname = %(schema)s)

-- name: create_schema
CREATE SCHEMA {schema} /* dpone:create_state_schema */

-- name: lock
SELECT /* dpone:state_lock */ pg_advisory_xact_lock(%(key)s)

-- name: set_version
INSERT /* dpone:set_state_version */ INTO {schema}.__dpone__schema_version (version) VALUES ({version})
ON CONFLICT (only_row) DO UPDATE SET version = excluded.version, upgraded_at = clock_timestamp()

-- name: version_1
/* dpone:state_upgrade 1 */
CREATE TABLE {schema}.__dpone__schema_version (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    version integer NOT NULL CHECK (version > 0),
    upgraded_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- 64-bit transaction ids are bigint: xid8 has no order on PostgreSQL 13, and 2^63 ids are enough for centuries.
-- 0, 1 and 2 are not ids of transactions.
CREATE TABLE {schema}.__dpone__backfill_campaigns (
    run_key text PRIMARY KEY,
    dataset text NOT NULL,
    backfill_id text,
    target_schema text NOT NULL,
    target_name text NOT NULL,
    shadow_schema text NOT NULL,
    shadow_name text NOT NULL,
    backup_schema text NOT NULL,
    backup_name text NOT NULL,
    chunk_count integer NOT NULL CHECK (chunk_count > 0),
    plan_hash text NOT NULL,
    config_hash text NOT NULL,
    contract jsonb NOT NULL,
    contract_hash text NOT NULL,
    source_digest text NOT NULL,
    shadow_digest text NOT NULL,
    object_contract jsonb NOT NULL,
    object_contract_sha256 text NOT NULL,
    live_object_id bigint NOT NULL,
    live_generation text,
    predecessor_receipt text,
    shadow_object_id bigint NOT NULL,
    digest_key text NOT NULL,
    anchor_xid bigint CHECK (anchor_xid > 2),
    anchor_system_identifier text,
    anchor_timeline bigint,
    anchor_database_oid bigint,
    anchor_taken_at timestamptz,
    phase text NOT NULL CHECK (phase IN (
        'planned', 'prepared', 'loading', 'recoverable', 'sealed', 'validated', 'blocked', 'published',
        'handoff_committed', 'cancelled'
    )),
    stop_reason text,
    cancel_reason text,
    cancel_requested_by text,
    seal_horizon bigint CHECK (seal_horizon > 2),
    validation jsonb,
    receipt_id text,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    diagnostics jsonb NOT NULL DEFAULT '{{}}',
    CHECK (num_nulls(anchor_xid, anchor_system_identifier, anchor_timeline, anchor_database_oid, anchor_taken_at)
           IN (0, 5)),
    CHECK ((cancel_reason IS NULL) = (cancel_requested_by IS NULL))
);

-- No foreign key: a check a row would double the time of a million-chunk prepare, and one transaction makes both.
CREATE TABLE {schema}.__dpone__backfill_chunks (
    run_key text NOT NULL,
    chunk_index integer NOT NULL CHECK (chunk_index >= 0),
    lower_bound text NOT NULL,
    upper_bound text NOT NULL,
    upper_inclusive boolean NOT NULL,
    state text NOT NULL DEFAULT 'pending'
        CHECK (state IN ('pending', 'running', 'committed', 'failed', 'lease_expired')),
    epoch bigint NOT NULL DEFAULT 0 CHECK (epoch >= 0),
    tries integer NOT NULL DEFAULT 0 CHECK (tries >= 0),
    worker_run_id text,
    worker_lane integer,
    worker_host text,
    worker_pid bigint,
    session_id bigint,
    session_login_at timestamptz,
    lease_expires_at timestamptz,
    rows bigint CHECK (rows >= 0),
    seconds double precision,
    receipt_id text,
    started_at timestamptz,
    finished_at timestamptz,
    error_code text,
    error text,
    failed_run_id text,
    diagnostics jsonb NOT NULL DEFAULT '{{}}',
    PRIMARY KEY (run_key, chunk_index),
    CHECK (state <> 'running' OR (worker_run_id IS NOT NULL AND lease_expires_at IS NOT NULL)),
    CHECK (state <> 'committed' OR (receipt_id IS NOT NULL AND rows IS NOT NULL))
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);

-- What lanes look through: it shrinks as the campaign proceeds.
CREATE INDEX __dpone__backfill_chunks_open ON {schema}.__dpone__backfill_chunks (run_key, chunk_index)
    WHERE state <> 'committed';

-- No foreign key here either: a receipt stands whatever becomes of the ledger.
CREATE TABLE {schema}.__dpone__chunk_receipts (
    run_key text NOT NULL,
    chunk_index integer NOT NULL,
    receipt_id text NOT NULL UNIQUE,
    plan_hash text NOT NULL,
    contract_hash text NOT NULL,
    binding text NOT NULL,
    epoch bigint NOT NULL,
    rows bigint NOT NULL CHECK (rows >= 0),
    bytes bigint NOT NULL DEFAULT 0 CHECK (bytes >= 0),
    nulled jsonb NOT NULL DEFAULT '{{}}',
    key_digest text,
    run_id text,
    committed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    diagnostics jsonb NOT NULL DEFAULT '{{}}',
    PRIMARY KEY (run_key, chunk_index)
);

CREATE TABLE {schema}.__dpone__publications (
    receipt_id text PRIMARY KEY,
    target text NOT NULL,
    sequence integer NOT NULL CHECK (sequence > 0),
    kind text NOT NULL CHECK (kind IN ('publish', 'rollback')),
    run_key text NOT NULL,
    generation text NOT NULL,
    predecessor_receipt text REFERENCES {schema}.__dpone__publications,
    live_object_id bigint NOT NULL,
    backup text NOT NULL,
    expected_rows bigint NOT NULL,
    actual_rows bigint NOT NULL,
    object_contract_sha256 text NOT NULL,
    head text NOT NULL CHECK (head IN ('pending', 'closed')),
    handoff_id text,
    published_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    approved_by text,
    UNIQUE (target, sequence),
    CHECK (head = 'closed' OR handoff_id IS NOT NULL),
    CHECK ((sequence = 1) = (predecessor_receipt IS NULL))
);

-- A campaign is published once.
CREATE UNIQUE INDEX __dpone__publications_campaign ON {schema}.__dpone__publications (run_key)
    WHERE kind = 'publish';

-- A handoff id names one source and one target for good; the checkpoints' foreign key holds them to it.
CREATE TABLE {schema}.__dpone__xmin_handoffs (
    handoff_id text PRIMARY KEY,
    source text NOT NULL,
    target text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (handoff_id, source, target)
);

CREATE TABLE {schema}.__dpone__xmin_checkpoints (
    target text NOT NULL,
    generation text NOT NULL,
    handoff_id text NOT NULL,
    source text NOT NULL,
    publication_receipt text NOT NULL REFERENCES {schema}.__dpone__publications,
    anchor_xid bigint NOT NULL CHECK (anchor_xid > 2),
    anchor_system_identifier text NOT NULL,
    anchor_timeline bigint NOT NULL,
    anchor_database_oid bigint NOT NULL,
    anchor_taken_at timestamptz NOT NULL,
    revision bigint NOT NULL CHECK (revision > 0),
    reconciled boolean NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (target, generation),
    FOREIGN KEY (handoff_id, source, target) REFERENCES {schema}.__dpone__xmin_handoffs (handoff_id, source, target)
);

CREATE TABLE {schema}.__dpone__loads (
    load_id text PRIMARY KEY,
    dataset text NOT NULL,
    kind text NOT NULL,
    run_id text NOT NULL,
    status text NOT NULL DEFAULT 'running',
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz,
    facts jsonb NOT NULL DEFAULT '{{}}'
);

CREATE TABLE {schema}.__dpone__load_steps (
    step_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    load_id text NOT NULL REFERENCES {schema}.__dpone__loads,
    step text NOT NULL,
    status text NOT NULL,
    seconds double precision NOT NULL,
    facts jsonb NOT NULL DEFAULT '{{}}',
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE INDEX __dpone__load_steps_load ON {schema}.__dpone__load_steps (load_id);

-- name: version_2
/* dpone:state_upgrade 2 */
ALTER TABLE {schema}.__dpone__backfill_campaigns
    DROP CONSTRAINT __dpone__backfill_campaigns_phase_check,
    ADD CONSTRAINT __dpone__backfill_campaigns_phase_check CHECK (phase IN (
        'planned', 'prepared', 'loading', 'recoverable', 'sealed', 'validated', 'blocked', 'published',
        'handoff_committed', 'rolled_back', 'cancelled'
    ));

ALTER TABLE {schema}.__dpone__publications
    ADD COLUMN reason text,
    ADD COLUMN backup_dropped_at timestamptz,
    ADD COLUMN backup_dropped_by text,
    ADD CHECK (kind <> 'rollback' OR num_nulls(approved_by, reason) = 0),
    ADD CHECK ((backup_dropped_at IS NULL) = (backup_dropped_by IS NULL));

-- A campaign is rolled back once.
CREATE UNIQUE INDEX __dpone__publications_rollback ON {schema}.__dpone__publications (run_key)
    WHERE kind = 'rollback';

-- name: version_3
/* dpone:state_upgrade 3 */
-- Sums over the committed chunks of each 1,000: derived, in the transaction that commits a chunk.
CREATE TABLE {schema}.__dpone__chunk_tallies (
    run_key text NOT NULL,
    block integer NOT NULL CHECK (block >= 0),
    committed bigint NOT NULL DEFAULT 0 CHECK (committed >= 0),
    rows bigint NOT NULL DEFAULT 0 CHECK (rows >= 0),
    seconds double precision NOT NULL DEFAULT 0,
    longest_seconds double precision NOT NULL DEFAULT 0,
    first_started_at timestamptz,
    last_started_at timestamptz,
    last_finished_at timestamptz,
    PRIMARY KEY (run_key, block)
) WITH (fillfactor = 50);

INSERT INTO {schema}.__dpone__chunk_tallies
SELECT run_key, chunk_index / 1000, count(*) FILTER (WHERE state = 'committed'),
       coalesce(sum(rows) FILTER (WHERE state = 'committed'), 0), coalesce(sum(seconds) FILTER (WHERE state = 'committed'), 0),
       coalesce(max(seconds) FILTER (WHERE state = 'committed'), 0), min(started_at) FILTER (WHERE state = 'committed'),
       max(started_at) FILTER (WHERE state = 'committed'), max(finished_at) FILTER (WHERE state = 'committed')
FROM {schema}.__dpone__backfill_chunks GROUP BY run_key, chunk_index / 1000;

-- What was claimed and is not committed: what lanes have in hand, and what is left to mend.
CREATE INDEX __dpone__backfill_chunks_begun ON {schema}.__dpone__backfill_chunks (run_key, chunk_index)
    WHERE state <> 'committed' AND started_at IS NOT NULL;

-- The state tables, as numbered upgrades: `version_<n>` leads from version n - 1 to n. Never change a block that
-- was released; add the next one. Text compares by code point whatever the database's collation is; times are UTC.
-- No foreign keys: what they would hold is a condition of the INSERTs, which the target's lock makes final.

-- name: version
-- 0 where they are not there: what a branch names is looked for when the branch is taken.
IF EXISTS (
    SELECT 1 FROM sys.tables AS t JOIN sys.schemas AS s ON s.schema_id = t.schema_id WHERE s.name = ? AND t.name = ?
)
    SELECT /* dpone:state_version */ version FROM {schema}.__dpone__schema_version
ELSE
    SELECT 0

-- name: has_schema
SELECT /* dpone:state_schema_present */ COUNT(*) FROM sys.schemas WHERE name = ?

-- name: create_schema
CREATE SCHEMA {schema}

-- name: lock
DECLARE @code int;
EXEC /* dpone:state_lock */ @code = sp_getapplock
    @Resource = ?, @LockMode = 'Exclusive', @LockOwner = 'Transaction', @LockTimeout = ?, @DbPrincipal = 'public';
SELECT @code

-- name: set_version
DELETE FROM {schema}.__dpone__schema_version;
INSERT /* dpone:set_state_version */ INTO {schema}.__dpone__schema_version (only_row, version) VALUES (1, ?)

-- name: version_1
CREATE TABLE {schema}.__dpone__schema_version (
    only_row bit NOT NULL CONSTRAINT __dpone__schema_version_pk PRIMARY KEY
        CONSTRAINT __dpone__schema_version_one CHECK (only_row = 1),
    version int NOT NULL CONSTRAINT __dpone__schema_version_positive CHECK (version > 0),
    upgraded_at datetime2(6) NOT NULL CONSTRAINT __dpone__schema_version_now DEFAULT SYSUTCDATETIME()
);

CREATE TABLE {schema}.__dpone__backfill_campaigns (
    run_key nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL CONSTRAINT __dpone__campaigns_pk PRIMARY KEY,
    dataset nvarchar(450) COLLATE Latin1_General_BIN2 NOT NULL,
    backfill_id nvarchar(450) COLLATE Latin1_General_BIN2 NULL,
    target_schema nvarchar(128) COLLATE Latin1_General_BIN2 NOT NULL,
    target_name nvarchar(128) COLLATE Latin1_General_BIN2 NOT NULL,
    shadow_schema nvarchar(128) COLLATE Latin1_General_BIN2 NOT NULL,
    shadow_name nvarchar(128) COLLATE Latin1_General_BIN2 NOT NULL,
    backup_schema nvarchar(128) COLLATE Latin1_General_BIN2 NOT NULL,
    backup_name nvarchar(128) COLLATE Latin1_General_BIN2 NOT NULL,
    chunk_count int NOT NULL CONSTRAINT __dpone__campaigns_chunks CHECK (chunk_count > 0),
    plan_hash nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    config_hash nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    contract nvarchar(max) NOT NULL,
    contract_hash nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    source_digest nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    shadow_digest nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    object_contract nvarchar(max) NOT NULL,
    object_contract_sha256 nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    live_object_id bigint NOT NULL,
    live_generation nvarchar(64) COLLATE Latin1_General_BIN2 NULL,
    predecessor_receipt nvarchar(64) COLLATE Latin1_General_BIN2 NULL,
    shadow_object_id bigint NOT NULL,
    digest_key nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    anchor_xid bigint NULL CONSTRAINT __dpone__campaigns_anchor CHECK (anchor_xid > 2),
    anchor_system_identifier nvarchar(64) COLLATE Latin1_General_BIN2 NULL,
    anchor_timeline bigint NULL,
    anchor_database_oid bigint NULL,
    anchor_taken_at datetime2(6) NULL,
    phase nvarchar(32) COLLATE Latin1_General_BIN2 NOT NULL CONSTRAINT __dpone__campaigns_phase CHECK (phase IN (
        N'planned', N'prepared', N'loading', N'recoverable', N'sealed', N'validated', N'blocked', N'published',
        N'handoff_committed', N'cancelled'
    )),
    stop_reason nvarchar(max) NULL,
    cancel_reason nvarchar(max) NULL,
    cancel_requested_by nvarchar(max) NULL,
    seal_horizon bigint NULL,
    validation nvarchar(max) NULL,
    receipt_id nvarchar(64) COLLATE Latin1_General_BIN2 NULL,
    created_at datetime2(6) NOT NULL CONSTRAINT __dpone__campaigns_created DEFAULT SYSUTCDATETIME(),
    updated_at datetime2(6) NOT NULL CONSTRAINT __dpone__campaigns_updated DEFAULT SYSUTCDATETIME(),
    diagnostics nvarchar(max) NOT NULL CONSTRAINT __dpone__campaigns_diagnostics DEFAULT N'{}',
    CONSTRAINT __dpone__campaigns_whole_anchor CHECK (
        anchor_xid IS NULL AND anchor_system_identifier IS NULL AND anchor_timeline IS NULL
        AND anchor_database_oid IS NULL AND anchor_taken_at IS NULL
        OR anchor_xid IS NOT NULL AND anchor_system_identifier IS NOT NULL AND anchor_timeline IS NOT NULL
        AND anchor_database_oid IS NOT NULL AND anchor_taken_at IS NOT NULL
    ),
    CONSTRAINT __dpone__campaigns_cancel CHECK (
        cancel_reason IS NULL AND cancel_requested_by IS NULL
        OR cancel_reason IS NOT NULL AND cancel_requested_by IS NOT NULL
    )
);

CREATE TABLE {schema}.__dpone__backfill_chunks (
    run_key nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    chunk_index int NOT NULL CONSTRAINT __dpone__chunks_index CHECK (chunk_index >= 0),
    lower_bound nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    upper_bound nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    upper_inclusive bit NOT NULL,
    state nvarchar(16) COLLATE Latin1_General_BIN2 NOT NULL CONSTRAINT __dpone__chunks_pending DEFAULT N'pending'
        CONSTRAINT __dpone__chunks_state CHECK (
            state IN (N'pending', N'running', N'committed', N'failed', N'lease_expired')
        ),
    epoch bigint NOT NULL CONSTRAINT __dpone__chunks_epoch_0 DEFAULT 0
        CONSTRAINT __dpone__chunks_epoch CHECK (epoch >= 0),
    tries int NOT NULL CONSTRAINT __dpone__chunks_tries_0 DEFAULT 0
        CONSTRAINT __dpone__chunks_tries CHECK (tries >= 0),
    worker_run_id nvarchar(450) COLLATE Latin1_General_BIN2 NULL,
    worker_lane int NULL,
    worker_host nvarchar(256) NULL,
    worker_pid bigint NULL,
    session_id int NULL,
    session_login_at datetime2(3) NULL,
    lease_expires_at datetime2(6) NULL,
    [rows] bigint NULL CONSTRAINT __dpone__chunks_rows CHECK ([rows] >= 0),
    seconds float NULL,
    receipt_id nvarchar(64) COLLATE Latin1_General_BIN2 NULL,
    started_at datetime2(6) NULL,
    finished_at datetime2(6) NULL,
    error_code nvarchar(64) COLLATE Latin1_General_BIN2 NULL,
    error nvarchar(max) NULL,
    failed_run_id nvarchar(450) COLLATE Latin1_General_BIN2 NULL,
    diagnostics nvarchar(max) NOT NULL CONSTRAINT __dpone__chunks_diagnostics DEFAULT N'{}',
    CONSTRAINT __dpone__chunks_pk PRIMARY KEY (run_key, chunk_index),
    CONSTRAINT __dpone__chunks_running CHECK (
        state <> N'running' OR worker_run_id IS NOT NULL AND lease_expires_at IS NOT NULL
    ),
    CONSTRAINT __dpone__chunks_committed CHECK (
        state <> N'committed' OR receipt_id IS NOT NULL AND [rows] IS NOT NULL
    )
);

-- What lanes look through: it shrinks as the campaign proceeds.
CREATE INDEX __dpone__chunks_open ON {schema}.__dpone__backfill_chunks (run_key, chunk_index)
    WHERE state <> N'committed';

-- A receipt stands whatever becomes of the ledger.
CREATE TABLE {schema}.__dpone__chunk_receipts (
    run_key nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    chunk_index int NOT NULL,
    receipt_id nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL CONSTRAINT __dpone__receipts_id UNIQUE,
    plan_hash nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    contract_hash nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    binding nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    epoch bigint NOT NULL,
    [rows] bigint NOT NULL CONSTRAINT __dpone__receipts_rows CHECK ([rows] >= 0),
    bytes bigint NOT NULL CONSTRAINT __dpone__receipts_bytes_0 DEFAULT 0
        CONSTRAINT __dpone__receipts_bytes CHECK (bytes >= 0),
    nulled nvarchar(max) NOT NULL CONSTRAINT __dpone__receipts_nulled DEFAULT N'{}',
    key_digest nvarchar(128) COLLATE Latin1_General_BIN2 NULL,
    run_id nvarchar(450) COLLATE Latin1_General_BIN2 NULL,
    committed_at datetime2(6) NOT NULL CONSTRAINT __dpone__receipts_now DEFAULT SYSUTCDATETIME(),
    diagnostics nvarchar(max) NOT NULL CONSTRAINT __dpone__receipts_diagnostics DEFAULT N'{}',
    CONSTRAINT __dpone__receipts_pk PRIMARY KEY (run_key, chunk_index)
);

CREATE TABLE {schema}.__dpone__publications (
    receipt_id nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL CONSTRAINT __dpone__publications_pk PRIMARY KEY,
    target nvarchar(260) COLLATE Latin1_General_BIN2 NOT NULL,
    sequence int NOT NULL CONSTRAINT __dpone__publications_sequence CHECK (sequence > 0),
    kind nvarchar(16) COLLATE Latin1_General_BIN2 NOT NULL
        CONSTRAINT __dpone__publications_kind CHECK (kind IN (N'publish', N'rollback')),
    run_key nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    generation nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    predecessor_receipt nvarchar(64) COLLATE Latin1_General_BIN2 NULL,
    live_object_id bigint NOT NULL,
    [backup] nvarchar(260) COLLATE Latin1_General_BIN2 NOT NULL,
    expected_rows bigint NOT NULL,
    actual_rows bigint NOT NULL,
    object_contract_sha256 nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    head nvarchar(16) COLLATE Latin1_General_BIN2 NOT NULL
        CONSTRAINT __dpone__publications_head CHECK (head IN (N'pending', N'closed')),
    handoff_id nvarchar(450) COLLATE Latin1_General_BIN2 NULL,
    published_at datetime2(6) NOT NULL CONSTRAINT __dpone__publications_now DEFAULT SYSUTCDATETIME(),
    approved_by nvarchar(256) NULL,
    CONSTRAINT __dpone__publications_history UNIQUE (target, sequence),
    CONSTRAINT __dpone__publications_owed CHECK (head = N'closed' OR handoff_id IS NOT NULL),
    CONSTRAINT __dpone__publications_chain CHECK (
        sequence = 1 AND predecessor_receipt IS NULL OR sequence > 1 AND predecessor_receipt IS NOT NULL
    )
);

-- A campaign is published once.
CREATE UNIQUE INDEX __dpone__publications_campaign ON {schema}.__dpone__publications (run_key)
    WHERE kind = N'publish';

-- A handoff id names one source and one target for good.
CREATE TABLE {schema}.__dpone__xmin_handoffs (
    handoff_id nvarchar(450) COLLATE Latin1_General_BIN2 NOT NULL CONSTRAINT __dpone__handoffs_pk PRIMARY KEY,
    source nvarchar(450) COLLATE Latin1_General_BIN2 NOT NULL,
    target nvarchar(260) COLLATE Latin1_General_BIN2 NOT NULL,
    created_at datetime2(6) NOT NULL CONSTRAINT __dpone__handoffs_now DEFAULT SYSUTCDATETIME()
);

CREATE TABLE {schema}.__dpone__xmin_checkpoints (
    target nvarchar(260) COLLATE Latin1_General_BIN2 NOT NULL,
    generation nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    handoff_id nvarchar(450) COLLATE Latin1_General_BIN2 NOT NULL,
    publication_receipt nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    anchor_xid bigint NOT NULL CONSTRAINT __dpone__checkpoints_anchor CHECK (anchor_xid > 2),
    anchor_system_identifier nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    anchor_timeline bigint NOT NULL,
    anchor_database_oid bigint NOT NULL,
    anchor_taken_at datetime2(6) NOT NULL,
    revision bigint NOT NULL CONSTRAINT __dpone__checkpoints_revision CHECK (revision > 0),
    reconciled bit NOT NULL,
    created_at datetime2(6) NOT NULL CONSTRAINT __dpone__checkpoints_created DEFAULT SYSUTCDATETIME(),
    updated_at datetime2(6) NOT NULL CONSTRAINT __dpone__checkpoints_updated DEFAULT SYSUTCDATETIME(),
    CONSTRAINT __dpone__checkpoints_pk PRIMARY KEY (target, generation)
);

CREATE TABLE {schema}.__dpone__loads (
    load_id nvarchar(450) COLLATE Latin1_General_BIN2 NOT NULL CONSTRAINT __dpone__loads_pk PRIMARY KEY,
    dataset nvarchar(450) COLLATE Latin1_General_BIN2 NOT NULL,
    kind nvarchar(32) COLLATE Latin1_General_BIN2 NOT NULL,
    run_id nvarchar(450) COLLATE Latin1_General_BIN2 NOT NULL,
    status nvarchar(32) COLLATE Latin1_General_BIN2 NOT NULL CONSTRAINT __dpone__loads_running DEFAULT N'running',
    started_at datetime2(6) NOT NULL CONSTRAINT __dpone__loads_now DEFAULT SYSUTCDATETIME(),
    finished_at datetime2(6) NULL,
    facts nvarchar(max) NOT NULL CONSTRAINT __dpone__loads_facts DEFAULT N'{}'
);

CREATE TABLE {schema}.__dpone__load_steps (
    step_id bigint IDENTITY (1, 1) NOT NULL CONSTRAINT __dpone__load_steps_pk PRIMARY KEY,
    load_id nvarchar(450) COLLATE Latin1_General_BIN2 NOT NULL,
    step nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    status nvarchar(32) COLLATE Latin1_General_BIN2 NOT NULL,
    seconds float NOT NULL,
    facts nvarchar(max) NOT NULL CONSTRAINT __dpone__load_steps_facts DEFAULT N'{}',
    recorded_at datetime2(6) NOT NULL CONSTRAINT __dpone__load_steps_now DEFAULT SYSUTCDATETIME()
);

CREATE INDEX __dpone__load_steps_load_id ON {schema}.__dpone__load_steps (load_id)

-- name: version_2
ALTER TABLE {schema}.__dpone__backfill_campaigns DROP CONSTRAINT __dpone__campaigns_phase;

ALTER TABLE {schema}.__dpone__backfill_campaigns ADD CONSTRAINT __dpone__campaigns_phase CHECK (phase IN (
    N'planned', N'prepared', N'loading', N'recoverable', N'sealed', N'validated', N'blocked', N'published',
    N'handoff_committed', N'rolled_back', N'cancelled'
));

ALTER TABLE {schema}.__dpone__publications ADD reason nvarchar(max) NULL;

ALTER TABLE {schema}.__dpone__publications ADD backup_dropped_at datetime2(6) NULL;

ALTER TABLE {schema}.__dpone__publications ADD backup_dropped_by nvarchar(256) NULL;

ALTER TABLE {schema}.__dpone__publications ADD CONSTRAINT __dpone__publications_approved CHECK (
    kind <> N'rollback' OR approved_by IS NOT NULL AND reason IS NOT NULL
);

ALTER TABLE {schema}.__dpone__publications ADD CONSTRAINT __dpone__publications_dropped CHECK (
    backup_dropped_at IS NULL AND backup_dropped_by IS NULL
    OR backup_dropped_at IS NOT NULL AND backup_dropped_by IS NOT NULL
);

-- A campaign is rolled back once.
CREATE UNIQUE INDEX __dpone__publications_rollback ON {schema}.__dpone__publications (run_key)
    WHERE kind = N'rollback'

-- name: version_3
-- Sums over the committed chunks of each 1,000: derived, in the transaction that commits a chunk.
CREATE TABLE {schema}.__dpone__chunk_tallies (
    run_key nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    block int NOT NULL CONSTRAINT __dpone__tallies_block CHECK (block >= 0),
    committed bigint NOT NULL CONSTRAINT __dpone__tallies_committed_0 DEFAULT 0
        CONSTRAINT __dpone__tallies_committed CHECK (committed >= 0),
    [rows] bigint NOT NULL CONSTRAINT __dpone__tallies_rows_0 DEFAULT 0
        CONSTRAINT __dpone__tallies_rows CHECK ([rows] >= 0),
    seconds float NOT NULL CONSTRAINT __dpone__tallies_seconds_0 DEFAULT 0,
    longest_seconds float NOT NULL CONSTRAINT __dpone__tallies_longest_0 DEFAULT 0,
    first_started_at datetime2(6) NULL,
    last_started_at datetime2(6) NULL,
    last_finished_at datetime2(6) NULL,
    CONSTRAINT __dpone__tallies_pk PRIMARY KEY (run_key, block)
);

INSERT INTO {schema}.__dpone__chunk_tallies (
    run_key, block, committed, [rows], seconds, longest_seconds, first_started_at, last_started_at, last_finished_at
)
SELECT c.run_key, c.block, SUM(c.done), SUM(c.[rows]), SUM(c.seconds), MAX(c.seconds),
       MIN(c.started_at), MAX(c.started_at), MAX(c.finished_at)
FROM (
    SELECT run_key, chunk_index / 1000 AS block, CASE WHEN state = N'committed' THEN 1 ELSE 0 END AS done,
           CASE WHEN state = N'committed' THEN [rows] ELSE 0 END AS [rows],
           CASE WHEN state = N'committed' THEN COALESCE(seconds, 0) ELSE 0 END AS seconds,
           CASE WHEN state = N'committed' THEN started_at END AS started_at,
           CASE WHEN state = N'committed' THEN finished_at END AS finished_at
    FROM {schema}.__dpone__backfill_chunks
) AS c
GROUP BY c.run_key, c.block;

-- What was claimed and is not committed: what lanes have in hand, and what is left to mend. It covers what counters read.
CREATE INDEX __dpone__chunks_begun ON {schema}.__dpone__backfill_chunks (run_key, chunk_index)
    INCLUDE (state, started_at, finished_at, lease_expires_at)
    WHERE state <> N'committed' AND started_at IS NOT NULL

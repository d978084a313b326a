-- Campaign, chunk and receipt rows. Every move names what it expects to find; the caller reads the row count.
-- Probes read committed rows under lock, never a row version.

-- name: campaign
SELECT /* dpone:campaign */ * FROM {schema}.__dpone__backfill_campaigns WITH (READCOMMITTEDLOCK) WHERE run_key = ?

-- name: campaign_seen
-- Status waits for nobody where the database keeps row versions.
SELECT /* dpone:campaign_seen */ * FROM {schema}.__dpone__backfill_campaigns WHERE run_key = ?

-- name: campaign_locked
-- The hint is a courtesy; moves compare all the same.
SELECT /* dpone:campaign_locked */ * FROM {schema}.__dpone__backfill_campaigns WITH (UPDLOCK, ROWLOCK) WHERE run_key = ?

-- name: state_schemas
-- Those that this login is shown: all of them with VIEW DEFINITION, which deploy/mssql/setup.sql grants.
SELECT /* dpone:state_schemas */ s.name AS [schema], CASE WHEN s.schema_id = SCHEMA_ID(?) THEN 1 ELSE 0 END AS own
FROM sys.tables AS t JOIN sys.schemas AS s ON s.schema_id = t.schema_id
WHERE t.name = N'__dpone__backfill_campaigns' ORDER BY s.name

-- name: neighbours
-- Lanes of a cancelled campaign may still be draining.
SELECT /* dpone:neighbours */ run_key, dataset, backfill_id, phase, target_schema, target_name, shadow_schema,
       shadow_name, diagnostics
FROM {schema}.__dpone__backfill_campaigns
WHERE target_schema = ? AND target_name = ? AND phase NOT IN (N'published', N'handoff_committed', N'rolled_back')
ORDER BY run_key

-- name: touch_campaign
-- Takes the row's lock by a write, which no server may ignore.
UPDATE /* dpone:touch_campaign */ {schema}.__dpone__backfill_campaigns SET updated_at = updated_at WHERE run_key = ?

-- name: create_campaign
INSERT /* dpone:create_campaign */ INTO {schema}.__dpone__backfill_campaigns ({columns}) VALUES ({marks})

-- name: create_chunks
INSERT /* dpone:create_chunks */ INTO {schema}.__dpone__backfill_chunks
    (run_key, chunk_index, lower_bound, upper_bound, upper_inclusive)
SELECT ?, c.i, c.l, c.u, c.x
FROM OPENJSON(CAST(? AS nvarchar(max)))
    WITH (i int '$[0]', l nvarchar(64) '$[1]', u nvarchar(64) '$[2]', x bit '$[3]') AS c

-- name: create_tallies
INSERT /* dpone:create_tallies */ INTO {schema}.__dpone__chunk_tallies (run_key, block)
SELECT DISTINCT run_key, chunk_index / CAST(? AS int) FROM {schema}.__dpone__backfill_chunks WHERE run_key = ?

-- name: recount
UPDATE /* dpone:recount_tallies */ t
SET committed = n.committed, [rows] = n.[rows], seconds = n.seconds, longest_seconds = n.longest_seconds,
    first_started_at = n.first_started_at, last_started_at = n.last_started_at, last_finished_at = n.last_finished_at
FROM {schema}.__dpone__chunk_tallies AS t
JOIN (
    SELECT k.block, SUM(k.done) AS committed, SUM(k.[rows]) AS [rows], SUM(k.seconds) AS seconds,
           MAX(k.seconds) AS longest_seconds, MIN(k.started_at) AS first_started_at,
           MAX(k.started_at) AS last_started_at, MAX(k.finished_at) AS last_finished_at
    FROM (
        SELECT c.chunk_index / CAST(? AS int) AS block, CASE WHEN c.state = N'committed' THEN 1 ELSE 0 END AS done,
               CASE WHEN c.state = N'committed' THEN c.[rows] ELSE 0 END AS [rows],
               CASE WHEN c.state = N'committed' THEN COALESCE(c.seconds, 0) ELSE 0 END AS seconds,
               CASE WHEN c.state = N'committed' THEN c.started_at END AS started_at,
               CASE WHEN c.state = N'committed' THEN c.finished_at END AS finished_at
        FROM {schema}.__dpone__backfill_chunks AS c WHERE c.run_key = ?
    ) AS k
    GROUP BY k.block
) AS n ON n.block = t.block
WHERE t.run_key = ? AND (t.committed <> n.committed OR t.[rows] <> n.[rows])

-- name: move
-- `published` also needs that no cancel is recorded: the row lock of this very UPDATE settles the race with one.
UPDATE /* dpone:move_campaign */ {schema}.__dpone__backfill_campaigns
SET phase = ?, updated_at = SYSUTCDATETIME(){assignments}
WHERE run_key = ? AND phase IN ({old}) AND (? = 0 OR cancel_reason IS NULL)

-- name: set_stop
UPDATE /* dpone:set_stop */ {schema}.__dpone__backfill_campaigns
SET stop_reason = ?, updated_at = SYSUTCDATETIME() WHERE run_key = ?

-- name: cancel
UPDATE /* dpone:cancel */ {schema}.__dpone__backfill_campaigns
SET phase = N'cancelled', cancel_reason = COALESCE(cancel_reason, ?),
    cancel_requested_by = COALESCE(cancel_requested_by, ?), updated_at = SYSUTCDATETIME()
WHERE run_key = ? AND phase IN ({old})

-- name: candidates_free
-- The ranges come rotated by lane, so that lanes start far from each other and meet at the end.
SELECT /* dpone:candidates_free */ TOP (?) c.*,
       CAST(CASE WHEN c.lease_expires_at <= SYSUTCDATETIME() THEN 1 ELSE 0 END AS bit) AS expired
FROM OPENJSON(CAST(? AS nvarchar(max))) WITH ([start] int '$[0]', [stop] int '$[1]', place int '$[2]') AS r
CROSS APPLY (
    SELECT TOP (?) o.* FROM {schema}.__dpone__backfill_chunks AS o
    WHERE o.run_key = ? AND o.chunk_index >= r.[start] AND o.chunk_index < r.[stop] AND o.state <> N'committed'
      AND o.state IN ({states}) AND (o.state <> N'failed' OR o.failed_run_id IS NULL OR o.failed_run_id <> ?)
    ORDER BY o.chunk_index
) AS c
ORDER BY r.place, c.chunk_index

-- name: candidates_running
-- Locks are re-entrant, so a chunk that this very session has claimed must not be offered to it.
SELECT /* dpone:candidates_running */ TOP (?) c.*,
       CAST(CASE WHEN c.lease_expires_at <= SYSUTCDATETIME() THEN 1 ELSE 0 END AS bit) AS expired
FROM OPENJSON(CAST(? AS nvarchar(max))) WITH ([start] int '$[0]', [stop] int '$[1]', place int '$[2]') AS r
JOIN {schema}.__dpone__backfill_chunks AS c
    ON c.run_key = ? AND c.chunk_index >= r.[start] AND c.chunk_index < r.[stop]
WHERE c.state <> N'committed' AND c.started_at IS NOT NULL AND c.state = N'running'
  AND NOT (COALESCE(c.session_id, -1) = ? AND COALESCE(c.session_login_at, '0001-01-01') = CAST(? AS datetime2(3)))
ORDER BY c.lease_expires_at, r.place, c.chunk_index

-- name: claim
-- Two statements, two transactions: a death between them leaves a phase that the next claim moves.
UPDATE /* dpone:claim */ c
SET state = N'running', epoch = c.epoch + 1, tries = c.tries + 1,
    worker_run_id = ?, worker_lane = ?, worker_host = ?, worker_pid = ?,
    session_id = ?, session_login_at = CAST(? AS datetime2(3)),
    lease_expires_at = DATEADD(second, ?, SYSUTCDATETIME()), started_at = SYSUTCDATETIME(), finished_at = NULL
FROM {schema}.__dpone__backfill_chunks AS c
WHERE c.run_key = ? AND c.chunk_index = ? AND c.state = ? AND c.epoch = ? AND c.state <> N'committed'
  AND EXISTS (
      SELECT 1 FROM {schema}.__dpone__backfill_campaigns AS g WITH (READCOMMITTEDLOCK)
      WHERE g.run_key = c.run_key AND g.phase IN ({loadable}) AND g.cancel_reason IS NULL AND g.stop_reason IS NULL
  )
  AND EXISTS (SELECT 1 FROM {schema}.__dpone__schema_version WITH (READCOMMITTEDLOCK) WHERE version = ?);
DECLARE @claimed int = @@ROWCOUNT;
IF @claimed = 1
    UPDATE {schema}.__dpone__backfill_campaigns SET phase = N'loading', updated_at = SYSUTCDATETIME()
    WHERE run_key = ? AND phase IN (N'prepared', N'recoverable');
SELECT @claimed

-- name: renew
UPDATE /* dpone:renew */ {schema}.__dpone__backfill_chunks
SET lease_expires_at = DATEADD(second, ?, SYSUTCDATETIME())
WHERE run_key = ? AND chunk_index = ? AND epoch = ? AND state = N'running'

-- name: complete
UPDATE /* dpone:complete */ {schema}.__dpone__backfill_chunks
SET state = N'committed', [rows] = ?, seconds = ?, receipt_id = ?,
    finished_at = SYSUTCDATETIME(), lease_expires_at = NULL, error_code = NULL, error = NULL, failed_run_id = NULL
WHERE run_key = ? AND chunk_index = ? AND epoch = ? AND state = N'running'

-- name: tally
UPDATE /* dpone:tally */ t
SET committed = t.committed + 1, [rows] = t.[rows] + c.[rows], seconds = t.seconds + c.seconds,
    longest_seconds = CASE WHEN c.seconds > t.longest_seconds THEN c.seconds ELSE t.longest_seconds END,
    first_started_at = CASE WHEN t.first_started_at <= c.started_at THEN t.first_started_at ELSE c.started_at END,
    last_started_at = CASE WHEN t.last_started_at >= c.started_at THEN t.last_started_at ELSE c.started_at END,
    last_finished_at = CASE WHEN t.last_finished_at >= c.finished_at THEN t.last_finished_at ELSE c.finished_at END
FROM {schema}.__dpone__chunk_tallies AS t
JOIN {schema}.__dpone__backfill_chunks AS c ON c.run_key = t.run_key
WHERE t.run_key = ? AND t.block = ? AND c.chunk_index = ?

-- name: fail
UPDATE /* dpone:fail */ {schema}.__dpone__backfill_chunks
SET state = N'failed', error_code = ?, error = ?, failed_run_id = ?,
    finished_at = SYSUTCDATETIME(), lease_expires_at = NULL
WHERE run_key = ? AND chunk_index = ? AND epoch = ? AND state = N'running'

-- name: stop_after_failure
UPDATE /* dpone:stop_after_failure */ {schema}.__dpone__backfill_campaigns
SET stop_reason = COALESCE(stop_reason, ?), updated_at = SYSUTCDATETIME() WHERE run_key = ?

-- name: give_back
UPDATE /* dpone:give_back */ {schema}.__dpone__backfill_chunks
SET state = N'pending', lease_expires_at = NULL
WHERE run_key = ? AND chunk_index = ? AND epoch = ? AND state = N'running'

-- name: planned
SELECT /* dpone:planned */ chunk_count FROM {schema}.__dpone__backfill_campaigns WHERE run_key = ?

-- name: tallied
SELECT /* dpone:tallied */ SUM(t.committed) AS committed, SUM(t.[rows]) AS rows_loaded, SUM(t.seconds) AS busy_seconds,
       MIN(t.first_started_at) AS started_at, MAX(t.last_finished_at) AS finished_at
FROM OPENJSON(CAST(? AS nvarchar(max))) WITH ([start] int '$[0]', [stop] int '$[1]') AS r
JOIN {schema}.__dpone__chunk_tallies AS t ON t.run_key = ? AND t.block >= r.[start] AND t.block < r.[stop]

-- name: beside_blocks
SELECT /* dpone:beside_blocks */ COUNT(*) AS committed, SUM(c.[rows]) AS rows_loaded, SUM(c.seconds) AS busy_seconds,
       MIN(c.started_at) AS started_at, MAX(c.finished_at) AS finished_at
FROM OPENJSON(CAST(? AS nvarchar(max))) WITH ([start] int '$[0]', [stop] int '$[1]') AS r
JOIN {schema}.__dpone__backfill_chunks AS c
    ON c.run_key = ? AND c.chunk_index >= r.[start] AND c.chunk_index < r.[stop]
WHERE c.state = N'committed'

-- name: begun
SELECT /* dpone:begun */ b.state, b.expired, COUNT(*) AS number, MIN(b.started_at) AS started_at, MAX(b.now_at) AS now_at
FROM (
    SELECT c.state, c.started_at, SYSUTCDATETIME() AS now_at,
           CASE WHEN c.lease_expires_at <= SYSUTCDATETIME() THEN 1 ELSE 0 END AS expired
    FROM OPENJSON(CAST(? AS nvarchar(max))) WITH ([start] int '$[0]', [stop] int '$[1]') AS r
    JOIN {schema}.__dpone__backfill_chunks AS c
        ON c.run_key = ? AND c.chunk_index >= r.[start] AND c.chunk_index < r.[stop]
    WHERE c.state <> N'committed' AND c.started_at IS NOT NULL
) AS b
GROUP BY b.state, b.expired

-- name: count_chunks
SELECT /* dpone:count_chunks */ COUNT(*), COALESCE(SUM(CASE WHEN state = N'committed' THEN 1 ELSE 0 END), 0)
FROM {schema}.__dpone__backfill_chunks WITH (READCOMMITTEDLOCK) WHERE run_key = ?

-- name: vitals
-- One statement for all that is watched. Chunks are looked at only where they may still move, and audit rows only
-- where a publication is due. What comes from JSON bears the database's collation, the state tables their own.
SELECT /* dpone:vitals */
    SYSUTCDATETIME() AS now_at, g.phase, g.updated_at AS phase_at,
    CASE WHEN g.phase = N'blocked' THEN g.validation END AS validation,
    n.*, r.refused_at, r.refused_code,
    h.head, h.receipt_id, h.handoff_id, h.published_at, k.updated_at AS loaded_at
FROM (
    SELECT j.run_key COLLATE Latin1_General_BIN2 AS run_key, j.target COLLATE Latin1_General_BIN2 AS target, j.place
    FROM OPENJSON(CAST(? AS nvarchar(max)))
        WITH (run_key nvarchar(64) '$[0]', target nvarchar(260) '$[1]', place int '$[2]') AS j
) AS w
LEFT JOIN {schema}.__dpone__backfill_campaigns AS g ON g.run_key = w.run_key
OUTER APPLY (
    SELECT g.chunk_count AS counted,
        g.chunk_count - d.committed - b.running - b.failed - b.lease_expired AS pending,
        b.running, d.committed, b.failed, b.lease_expired, d.rows_loaded, d.busy_seconds,
        CASE WHEN b.started_at < d.started_at OR d.started_at IS NULL THEN b.started_at ELSE d.started_at END
            AS started_at,
        CASE WHEN b.claimed_at > d.claimed_at OR d.claimed_at IS NULL THEN b.claimed_at ELSE d.claimed_at END
            AS claimed_at,
        CASE WHEN b.finished_at > d.committed_at OR d.committed_at IS NULL THEN b.finished_at ELSE d.committed_at END
            AS finished_at,
        d.committed_at, b.lapsed_at
    FROM (
        SELECT COALESCE(SUM(t.committed), 0) AS committed, COALESCE(SUM(t.[rows]), 0) AS rows_loaded,
            COALESCE(SUM(t.seconds), 0) AS busy_seconds, MIN(t.first_started_at) AS started_at,
            MAX(t.last_started_at) AS claimed_at, MAX(t.last_finished_at) AS committed_at
        FROM {schema}.__dpone__chunk_tallies AS t WHERE t.run_key = g.run_key
    ) AS d
    CROSS JOIN (
        SELECT COALESCE(SUM(CASE WHEN c.state = N'running' AND c.expired = 0 THEN 1 ELSE 0 END), 0) AS running,
            COALESCE(SUM(CASE WHEN c.state = N'failed' THEN 1 ELSE 0 END), 0) AS failed,
            COALESCE(SUM(
                CASE WHEN c.state = N'lease_expired' OR c.state = N'running' AND c.expired = 1 THEN 1 ELSE 0 END
            ), 0) AS lease_expired,
            MIN(c.started_at) AS started_at, MAX(c.started_at) AS claimed_at, MAX(c.finished_at) AS finished_at,
            MIN(CASE WHEN c.state = N'running' AND c.expired = 1 THEN c.lease_expires_at END) AS lapsed_at
        FROM (
            SELECT o.state, o.started_at, o.finished_at, o.lease_expires_at,
                   CASE WHEN o.lease_expires_at <= SYSUTCDATETIME() THEN 1 ELSE 0 END AS expired
            FROM {schema}.__dpone__backfill_chunks AS o
            WHERE o.run_key = g.run_key AND o.state <> N'committed' AND o.started_at IS NOT NULL
        ) AS c
    ) AS b
    WHERE g.phase IN ({loadable})
) AS n
OUTER APPLY (
    SELECT TOP (1) MIN(s.recorded_at) OVER () AS refused_at, JSON_VALUE(s.facts, '$.code') AS refused_code
    FROM {schema}.__dpone__loads AS l JOIN {schema}.__dpone__load_steps AS s ON s.load_id = l.load_id
    WHERE g.phase = N'validated' AND l.dataset = g.dataset AND l.kind = N'campaign' AND s.step = N'publish'
      AND s.status = N'failed' AND s.recorded_at >= g.updated_at AND JSON_VALUE(s.facts, '$.code') <> N'INTERRUPTED'
    ORDER BY s.step_id DESC
) AS r
OUTER APPLY (
    SELECT TOP (1) p.head, p.receipt_id, p.handoff_id, p.published_at, p.generation
    FROM {schema}.__dpone__publications AS p WHERE p.target = w.target ORDER BY p.sequence DESC
) AS h
LEFT JOIN {schema}.__dpone__xmin_checkpoints AS k ON k.target = w.target AND k.generation = h.generation
ORDER BY w.place

-- name: chunks
SELECT /* dpone:chunks */ TOP (?) c.* FROM (
    SELECT o.*, CAST(CASE WHEN o.lease_expires_at <= SYSUTCDATETIME() THEN 1 ELSE 0 END AS bit) AS expired
    FROM OPENJSON(CAST(? AS nvarchar(max))) WITH ([start] int '$[0]', [stop] int '$[1]') AS r
    JOIN {schema}.__dpone__backfill_chunks AS o
        ON o.run_key = ? AND o.chunk_index >= r.[start] AND o.chunk_index < r.[stop]
) AS c
WHERE ? = 0 OR CASE WHEN c.state = N'running' AND c.expired = 1 THEN N'lease_expired' ELSE c.state END IN ({only})
ORDER BY c.chunk_index

-- name: chunks_begun
-- As `chunks`, of states that only a chunk that was claimed is in.
SELECT /* dpone:chunks_begun */ TOP (?) c.* FROM (
    SELECT o.*, CAST(CASE WHEN o.lease_expires_at <= SYSUTCDATETIME() THEN 1 ELSE 0 END AS bit) AS expired
    FROM OPENJSON(CAST(? AS nvarchar(max))) WITH ([start] int '$[0]', [stop] int '$[1]') AS r
    JOIN {schema}.__dpone__backfill_chunks AS o
        ON o.run_key = ? AND o.chunk_index >= r.[start] AND o.chunk_index < r.[stop]
    WHERE o.state <> N'committed' AND o.started_at IS NOT NULL
) AS c
WHERE CASE WHEN c.state = N'running' AND c.expired = 1 THEN N'lease_expired' ELSE c.state END IN ({only})
ORDER BY c.chunk_index

-- name: receipt
SELECT /* dpone:receipt */ run_key, chunk_index, receipt_id, plan_hash, contract_hash, binding, epoch, [rows], bytes,
       nulled, committed_at, diagnostics
FROM {schema}.__dpone__chunk_receipts WITH (READCOMMITTEDLOCK) WHERE run_key = ? AND chunk_index = ?

-- name: receipt_totals
SELECT /* dpone:receipt_totals */ COUNT_BIG(*) AS receipts, COALESCE(SUM([rows]), 0) AS [rows],
       COALESCE(SUM(CASE WHEN plan_hash <> ? OR contract_hash <> ? THEN 1 ELSE 0 END), 0) AS foreign_receipts,
       COALESCE(SUM(CASE WHEN diagnostics LIKE N'%"rows_read"%' THEN 1 ELSE 0 END), 0) AS differing_receipts
FROM {schema}.__dpone__chunk_receipts WITH (READCOMMITTEDLOCK) WHERE run_key = ?

-- name: digest_totals
SELECT /* dpone:digest_totals */ COALESCE(SUM(CASE WHEN d.source IS NULL THEN 0 ELSE 1 END), 0) AS receipts,
       COALESCE(SUM(CAST(COALESCE(d.source, N'0') AS decimal(38, 0))), 0) AS source,
       COALESCE(SUM(CAST(COALESCE(d.target, d.source, N'0') AS decimal(38, 0))), 0) AS target,
       COALESCE(SUM(CASE WHEN d.target IS NULL THEN 0 ELSE 1 END), 0) AS differing
FROM (
    SELECT JSON_VALUE(diagnostics, '$.digest') AS source, JSON_VALUE(diagnostics, '$.target_digest') AS target
    FROM {schema}.__dpone__chunk_receipts WITH (READCOMMITTEDLOCK) WHERE run_key = ?
) AS d

-- name: digests_differing
SELECT /* dpone:digests_differing */ TOP (?) chunk_index
FROM {schema}.__dpone__chunk_receipts WITH (READCOMMITTEDLOCK)
WHERE run_key = ? AND JSON_VALUE(diagnostics, '$.target_digest') IS NOT NULL ORDER BY chunk_index

-- name: start_load
INSERT /* dpone:start_load */ INTO {schema}.__dpone__loads (load_id, dataset, kind, run_id)
SELECT ?, ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM {schema}.__dpone__loads WHERE load_id = ?)

-- name: load_facts
SELECT /* dpone:load_facts */ facts FROM {schema}.__dpone__loads WITH (READCOMMITTEDLOCK) WHERE load_id = ?

-- name: finish_load
UPDATE /* dpone:finish_load */ {schema}.__dpone__loads
SET status = ?, finished_at = SYSUTCDATETIME(), facts = ? WHERE load_id = ?

-- name: record_step
INSERT /* dpone:record_step */ INTO {schema}.__dpone__load_steps (load_id, step, status, seconds, facts)
VALUES (?, ?, ?, ?, ?)

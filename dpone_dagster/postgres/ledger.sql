-- Campaign, chunk and receipt rows. Every move names what it expects to find; the caller reads the row count.
-- A selection comes as ranges. LATERAL with OFFSET 0 has each range found by the index; a plain join of many ranges with
-- a million chunks took 18 s.

-- name: campaign
SELECT /* dpone:campaign */ *
FROM {schema}.__dpone__backfill_campaigns WHERE run_key = %(run_key)s

-- name: campaign_locked
SELECT /* dpone:campaign_locked */ *
FROM {schema}.__dpone__backfill_campaigns WHERE run_key = %(run_key)s FOR UPDATE

-- name: state_schemas
SELECT /* dpone:state_schemas */ n.nspname AS schema,
       has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT') AS readable
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname = '__dpone__backfill_campaigns' AND c.relkind IN ('r', 'p') ORDER BY n.nspname

-- name: neighbours
-- Lanes of a cancelled campaign may still be draining.
SELECT /* dpone:neighbours */ run_key, dataset, backfill_id, phase, target_schema, target_name, shadow_schema,
       shadow_name, diagnostics
FROM {schema}.__dpone__backfill_campaigns
WHERE target_schema = %(target_schema)s AND target_name = %(target_name)s
  AND phase NOT IN ('published', 'handoff_committed', 'rolled_back')
ORDER BY run_key

-- name: create_campaign
INSERT /* dpone:create_campaign */ INTO {schema}.__dpone__backfill_campaigns (
    run_key, dataset, backfill_id, target_schema, target_name, shadow_schema, shadow_name, backup_schema, backup_name,
    chunk_count, plan_hash, config_hash, contract, contract_hash, source_digest, shadow_digest, object_contract,
    object_contract_sha256, live_object_id, live_generation, predecessor_receipt, shadow_object_id, digest_key,
    anchor_xid, anchor_system_identifier, anchor_timeline, anchor_database_oid, anchor_taken_at,
    phase, stop_reason, cancel_reason, cancel_requested_by, seal_horizon, validation, receipt_id, diagnostics
) VALUES (
    %(run_key)s, %(dataset)s, %(backfill_id)s, %(target_schema)s, %(target_name)s, %(shadow_schema)s, %(shadow_name)s,
    %(backup_schema)s, %(backup_name)s, %(chunk_count)s, %(plan_hash)s, %(config_hash)s, %(contract)s,
    %(contract_hash)s, %(source_digest)s, %(shadow_digest)s, %(object_contract)s, %(object_contract_sha256)s,
    %(live_object_id)s, %(live_generation)s, %(predecessor_receipt)s, %(shadow_object_id)s, %(digest_key)s,
    %(anchor_xid)s, %(anchor_system_identifier)s, %(anchor_timeline)s, %(anchor_database_oid)s, %(anchor_taken_at)s,
    %(phase)s, %(stop_reason)s, %(cancel_reason)s, %(cancel_requested_by)s, %(seal_horizon)s, %(validation)s,
    %(receipt_id)s, %(diagnostics)s
)

-- name: create_chunks
COPY {schema}.__dpone__backfill_chunks (run_key, chunk_index, lower_bound, upper_bound, upper_inclusive)
FROM STDIN /* dpone:create_chunks */

-- name: create_tallies
INSERT /* dpone:create_tallies */ INTO {schema}.__dpone__chunk_tallies (run_key, block)
SELECT %(run_key)s, block FROM generate_series(0, %(last)s::integer) AS block

-- name: recount
UPDATE /* dpone:recount_tallies */ {schema}.__dpone__chunk_tallies AS t
SET committed = n.committed, rows = n.rows, seconds = n.seconds, longest_seconds = n.longest_seconds,
    first_started_at = n.first_started_at, last_started_at = n.last_started_at, last_finished_at = n.last_finished_at
FROM (
    SELECT b.block, count(c.chunk_index) AS committed, coalesce(sum(c.rows), 0)::bigint AS rows,
           coalesce(sum(c.seconds), 0) AS seconds, coalesce(max(c.seconds), 0) AS longest_seconds,
           min(c.started_at) AS first_started_at, max(c.started_at) AS last_started_at,
           max(c.finished_at) AS last_finished_at
    FROM {schema}.__dpone__chunk_tallies AS b
    LEFT JOIN {schema}.__dpone__backfill_chunks AS c
        ON c.run_key = %(run_key)s AND c.chunk_index / %(size)s::integer = b.block AND c.state = 'committed'
    WHERE b.run_key = %(run_key)s GROUP BY b.block
) AS n
WHERE t.run_key = %(run_key)s AND t.block = n.block AND (t.committed <> n.committed OR t.rows <> n.rows)

-- name: move
-- `published` also needs that no cancel is recorded: the row lock of this very UPDATE settles the race with one.
UPDATE /* dpone:move_campaign */ {schema}.__dpone__backfill_campaigns
SET phase = %(new)s, updated_at = clock_timestamp(),
    stop_reason = CASE WHEN 'stop_reason' = ANY (%(changed)s) THEN %(stop_reason)s ELSE stop_reason END,
    cancel_reason = CASE WHEN 'cancel_reason' = ANY (%(changed)s) THEN %(cancel_reason)s ELSE cancel_reason END,
    cancel_requested_by = CASE WHEN 'cancel_requested_by' = ANY (%(changed)s) THEN %(cancel_requested_by)s ELSE cancel_requested_by END,
    seal_horizon = CASE WHEN 'seal_horizon' = ANY (%(changed)s) THEN %(seal_horizon)s ELSE seal_horizon END,
    validation = CASE WHEN 'validation' = ANY (%(changed)s) THEN %(validation)s ELSE validation END,
    receipt_id = CASE WHEN 'receipt_id' = ANY (%(changed)s) THEN %(receipt_id)s ELSE receipt_id END,
    diagnostics = CASE WHEN 'diagnostics' = ANY (%(changed)s) THEN %(diagnostics)s ELSE diagnostics END
WHERE run_key = %(run_key)s AND phase = ANY (%(old)s) AND (%(new)s <> 'published' OR cancel_reason IS NULL)

-- name: set_stop
UPDATE /* dpone:set_stop */ {schema}.__dpone__backfill_campaigns
SET stop_reason = %(reason)s, updated_at = clock_timestamp() WHERE run_key = %(run_key)s

-- name: cancel
UPDATE /* dpone:cancel */ {schema}.__dpone__backfill_campaigns
SET phase = 'cancelled', cancel_reason = coalesce(cancel_reason, %(reason)s),
    cancel_requested_by = coalesce(cancel_requested_by, %(requested_by)s), updated_at = clock_timestamp()
WHERE run_key = %(run_key)s AND phase = ANY (%(old)s)

-- name: candidates_free
-- The ranges come rotated by lane, so that lanes start far from each other and meet at the end.
SELECT /* dpone:candidates_free */ c.*, c.lease_expires_at <= clock_timestamp() AS expired
FROM unnest(%(starts)s::integer[], %(stops)s::integer[]) WITH ORDINALITY AS r (start, stop, place)
CROSS JOIN LATERAL (
    SELECT * FROM {schema}.__dpone__backfill_chunks AS o
    WHERE o.run_key = %(run_key)s AND o.chunk_index >= r.start AND o.chunk_index < r.stop AND o.state <> 'committed'
      AND o.state = ANY (%(states)s) AND (o.state <> 'failed' OR o.failed_run_id IS DISTINCT FROM %(run_id)s)
    ORDER BY o.chunk_index LIMIT %(limit)s
) AS c
ORDER BY r.place, c.chunk_index LIMIT %(limit)s

-- name: candidates_running
-- Locks are re-entrant, so a chunk that this very session has claimed must not be offered to it.
SELECT /* dpone:candidates_running */ c.*, c.lease_expires_at <= clock_timestamp() AS expired
FROM unnest(%(starts)s::integer[], %(stops)s::integer[]) WITH ORDINALITY AS r (start, stop, place)
CROSS JOIN LATERAL (
    SELECT * FROM {schema}.__dpone__backfill_chunks AS o
    WHERE o.run_key = %(run_key)s AND o.chunk_index >= r.start AND o.chunk_index < r.stop
      AND o.state <> 'committed' AND o.started_at IS NOT NULL AND o.state = 'running' OFFSET 0
) AS c
WHERE NOT EXISTS (
    SELECT FROM pg_stat_activity a
    WHERE a.pid = pg_backend_pid() AND a.pid = c.session_id AND a.backend_start = c.session_login_at
)
ORDER BY c.lease_expires_at, r.place, c.chunk_index LIMIT %(limit)s

-- name: claim
WITH claimed AS (
    UPDATE /* dpone:claim */ {schema}.__dpone__backfill_chunks AS c
    SET state = 'running', epoch = c.epoch + 1, tries = c.tries + 1,
        worker_run_id = %(run_id)s, worker_lane = %(lane)s, worker_host = %(host)s, worker_pid = %(pid)s,
        session_id = pg_backend_pid(),
        session_login_at = (SELECT a.backend_start FROM pg_stat_activity a WHERE a.pid = pg_backend_pid()),
        lease_expires_at = clock_timestamp() + make_interval(secs => %(ttl)s),
        started_at = clock_timestamp(), finished_at = NULL
    FROM {schema}.__dpone__backfill_campaigns AS g
    WHERE c.run_key = %(run_key)s AND c.chunk_index = %(chunk_index)s AND c.state = %(state)s AND c.epoch = %(epoch)s
      AND c.state <> 'committed'
      AND g.run_key = c.run_key AND g.phase = ANY (%(loadable)s) AND g.cancel_reason IS NULL AND g.stop_reason IS NULL
      AND (SELECT version FROM {schema}.__dpone__schema_version) = %(version)s
    RETURNING c.epoch
), started AS (
    UPDATE {schema}.__dpone__backfill_campaigns SET phase = 'loading', updated_at = clock_timestamp()
    WHERE run_key = %(run_key)s AND phase IN ('prepared', 'recoverable') AND EXISTS (SELECT FROM claimed)
)
SELECT epoch FROM claimed

-- name: renew
UPDATE /* dpone:renew */ {schema}.__dpone__backfill_chunks
SET lease_expires_at = clock_timestamp() + make_interval(secs => %(ttl)s)
WHERE run_key = %(run_key)s AND chunk_index = %(chunk_index)s AND epoch = %(epoch)s AND state = 'running'

-- name: complete
WITH done AS (
    UPDATE /* dpone:complete */ {schema}.__dpone__backfill_chunks
    SET state = 'committed', rows = %(rows)s, seconds = %(seconds)s, receipt_id = %(receipt_id)s,
        finished_at = clock_timestamp(), lease_expires_at = NULL, error_code = NULL, error = NULL, failed_run_id = NULL
    WHERE run_key = %(run_key)s AND chunk_index = %(chunk_index)s AND epoch = %(epoch)s AND state = 'running'
    RETURNING rows, seconds, started_at, finished_at
), tallied AS (
    UPDATE {schema}.__dpone__chunk_tallies AS t
    SET committed = t.committed + 1, rows = t.rows + d.rows, seconds = t.seconds + d.seconds,
        longest_seconds = greatest(t.longest_seconds, d.seconds),
        first_started_at = least(t.first_started_at, d.started_at),
        last_started_at = greatest(t.last_started_at, d.started_at),
        last_finished_at = greatest(t.last_finished_at, d.finished_at)
    FROM done AS d WHERE t.run_key = %(run_key)s AND t.block = %(block)s
)
SELECT count(*) AS completed FROM done

-- name: fail
WITH failed AS (
    UPDATE /* dpone:fail */ {schema}.__dpone__backfill_chunks
    SET state = 'failed', error_code = %(code)s, error = %(error)s, failed_run_id = %(run_id)s,
        finished_at = clock_timestamp(), lease_expires_at = NULL
    WHERE run_key = %(run_key)s AND chunk_index = %(chunk_index)s AND epoch = %(epoch)s AND state = 'running'
    RETURNING 1
), stopped AS (
    UPDATE {schema}.__dpone__backfill_campaigns
    SET stop_reason = coalesce(stop_reason, %(stop_reason)s), updated_at = clock_timestamp()
    WHERE run_key = %(run_key)s AND %(stop_reason)s::text IS NOT NULL AND EXISTS (SELECT FROM failed)
)
SELECT count(*) AS failed FROM failed

-- name: give_back
UPDATE /* dpone:give_back */ {schema}.__dpone__backfill_chunks
SET state = 'pending', lease_expires_at = NULL
WHERE run_key = %(run_key)s AND chunk_index = %(chunk_index)s AND epoch = %(epoch)s AND state = 'running'

-- name: progress
-- Whole blocks from their tallies, what lies beside them and what is in hand from the chunks; the rest is pending.
SELECT /* dpone:progress */
    p.planned - d.committed - b.running - b.failed - b.lease_expired AS pending,
    b.running, d.committed, b.failed, b.lease_expired, d.rows, d.seconds AS busy_seconds,
    greatest(coalesce(extract(epoch FROM
        CASE WHEN b.running > 0 THEN clock_timestamp() ELSE d.finished_at END - least(d.started_at, b.started_at)
    ), 0), 0)::double precision AS wall_seconds
FROM (
    SELECT coalesce(sum(least(r.stop, g.chunk_count) - least(r.start, g.chunk_count)), 0)::bigint AS planned
    FROM unnest(%(starts)s::integer[], %(stops)s::integer[]) AS r (start, stop)
    CROSS JOIN {schema}.__dpone__backfill_campaigns AS g WHERE g.run_key = %(run_key)s
) AS p
CROSS JOIN (
    SELECT count(*) FILTER (WHERE state = 'running' AND NOT expired) AS running,
        count(*) FILTER (WHERE state = 'failed') AS failed,
        count(*) FILTER (WHERE state = 'lease_expired' OR state = 'running' AND expired) AS lease_expired,
        min(started_at) AS started_at
    FROM (
        SELECT c.state, c.started_at, c.lease_expires_at <= statement_timestamp() AS expired
        FROM unnest(%(starts)s::integer[], %(stops)s::integer[]) AS r (start, stop)
        CROSS JOIN LATERAL (
            SELECT * FROM {schema}.__dpone__backfill_chunks AS o
            WHERE o.run_key = %(run_key)s AND o.chunk_index >= r.start AND o.chunk_index < r.stop
              AND o.state <> 'committed' AND o.started_at IS NOT NULL OFFSET 0
        ) AS c
    ) AS begun
) AS b
CROSS JOIN (
    SELECT coalesce(sum(n.committed), 0)::bigint AS committed, coalesce(sum(n.rows), 0)::bigint AS rows,
        coalesce(sum(n.seconds), 0) AS seconds, min(n.started_at) AS started_at, max(n.finished_at) AS finished_at
    FROM (
        SELECT t.committed, t.rows, t.seconds, t.first_started_at AS started_at, t.last_finished_at AS finished_at
        FROM unnest(%(first_blocks)s::integer[], %(last_blocks)s::integer[]) AS r (start, stop)
        CROSS JOIN LATERAL (
            SELECT * FROM {schema}.__dpone__chunk_tallies AS o
            WHERE o.run_key = %(run_key)s AND o.block >= r.start AND o.block < r.stop OFFSET 0
        ) AS t
        UNION ALL
        SELECT 1, c.rows, c.seconds, c.started_at, c.finished_at
        FROM unnest(%(edge_starts)s::integer[], %(edge_stops)s::integer[]) AS r (start, stop)
        CROSS JOIN LATERAL (
            SELECT * FROM {schema}.__dpone__backfill_chunks AS o
            WHERE o.run_key = %(run_key)s AND o.chunk_index >= r.start AND o.chunk_index < r.stop OFFSET 0
        ) AS c WHERE c.state = 'committed'
    ) AS n
) AS d

-- name: count_chunks
SELECT /* dpone:count_chunks */ count(*) AS chunks, count(*) FILTER (WHERE state = 'committed') AS committed
FROM {schema}.__dpone__backfill_chunks WHERE run_key = %(run_key)s

-- name: vitals
-- One statement for all that is watched. Chunks are looked at only where they may still move, and audit rows only
-- where a publication is due: both conditions are of the row outside, so the server looks at nothing else.
SELECT /* dpone:vitals */
    statement_timestamp() AS now_at, g.phase, g.updated_at AS phase_at,
    CASE WHEN g.phase = 'blocked' THEN g.validation END AS validation,
    n.*, r.refused_at, r.refused_code,
    h.head, h.receipt_id, h.handoff_id, h.published_at, k.updated_at AS loaded_at
FROM unnest(%(run_keys)s::text[], %(targets)s::text[]) WITH ORDINALITY AS w (run_key, target, place)
LEFT JOIN {schema}.__dpone__backfill_campaigns AS g ON g.run_key = w.run_key
LEFT JOIN LATERAL (
    SELECT g.chunk_count AS counted,
        g.chunk_count - d.committed - b.running - b.failed - b.lease_expired AS pending,
        b.running, d.committed, b.failed, b.lease_expired, d.rows_loaded, d.busy_seconds,
        least(d.started_at, b.started_at) AS started_at, greatest(d.claimed_at, b.claimed_at) AS claimed_at,
        greatest(d.committed_at, b.finished_at) AS finished_at, d.committed_at, b.lapsed_at
    FROM (
        SELECT coalesce(sum(t.committed), 0)::bigint AS committed, coalesce(sum(t.rows), 0)::bigint AS rows_loaded,
            coalesce(sum(t.seconds), 0) AS busy_seconds, min(t.first_started_at) AS started_at,
            max(t.last_started_at) AS claimed_at, max(t.last_finished_at) AS committed_at
        FROM {schema}.__dpone__chunk_tallies AS t WHERE t.run_key = g.run_key
    ) AS d
    CROSS JOIN (
        SELECT count(*) FILTER (WHERE state = 'running' AND NOT expired) AS running,
            count(*) FILTER (WHERE state = 'failed') AS failed,
            count(*) FILTER (WHERE state = 'lease_expired' OR state = 'running' AND expired) AS lease_expired,
            min(started_at) AS started_at, max(started_at) AS claimed_at, max(finished_at) AS finished_at,
            min(lease_expires_at) FILTER (WHERE state = 'running' AND expired) AS lapsed_at
        FROM (
            SELECT o.*, o.lease_expires_at <= statement_timestamp() AS expired
            FROM {schema}.__dpone__backfill_chunks AS o
            WHERE o.run_key = g.run_key AND o.state <> 'committed' AND o.started_at IS NOT NULL
        ) AS begun
    ) AS b
    WHERE g.phase = ANY (%(loadable)s)
) AS n ON true
LEFT JOIN LATERAL (
    SELECT min(s.recorded_at) OVER () AS refused_at, s.facts ->> 'code' AS refused_code
    FROM {schema}.__dpone__loads AS l JOIN {schema}.__dpone__load_steps AS s ON s.load_id = l.load_id
    WHERE g.phase = 'validated' AND l.dataset = g.dataset AND l.kind = 'campaign' AND s.step = 'publish'
      AND s.status = 'failed' AND s.recorded_at >= g.updated_at AND s.facts ->> 'code' <> 'INTERRUPTED'
    ORDER BY s.step_id DESC LIMIT 1
) AS r ON true
LEFT JOIN LATERAL (
    SELECT p.head, p.receipt_id, p.handoff_id, p.published_at, p.generation
    FROM {schema}.__dpone__publications AS p WHERE p.target = w.target ORDER BY p.sequence DESC LIMIT 1
) AS h ON true
LEFT JOIN {schema}.__dpone__xmin_checkpoints AS k ON k.target = w.target AND k.generation = h.generation
ORDER BY w.place

-- name: chunks
SELECT /* dpone:chunks */ * FROM (
    SELECT c.*, c.lease_expires_at <= clock_timestamp() AS expired
    FROM unnest(%(starts)s::integer[], %(stops)s::integer[]) AS r (start, stop)
    CROSS JOIN LATERAL (
        SELECT * FROM {schema}.__dpone__backfill_chunks AS o
        WHERE o.run_key = %(run_key)s AND o.chunk_index >= r.start AND o.chunk_index < r.stop OFFSET 0
    ) AS c
) AS chunk
WHERE %(only)s::text[] = '{{}}'
   OR CASE WHEN state = 'running' AND expired THEN 'lease_expired' ELSE state END = ANY (%(only)s::text[])
ORDER BY chunk_index LIMIT %(limit)s

-- name: chunks_begun
-- As `chunks`, of states that only a chunk that was claimed is in.
SELECT /* dpone:chunks_begun */ * FROM (
    SELECT c.*, c.lease_expires_at <= clock_timestamp() AS expired
    FROM unnest(%(starts)s::integer[], %(stops)s::integer[]) AS r (start, stop)
    CROSS JOIN LATERAL (
        SELECT * FROM {schema}.__dpone__backfill_chunks AS o
        WHERE o.run_key = %(run_key)s AND o.chunk_index >= r.start AND o.chunk_index < r.stop
          AND o.state <> 'committed' AND o.started_at IS NOT NULL OFFSET 0
    ) AS c
) AS chunk
WHERE CASE WHEN state = 'running' AND expired THEN 'lease_expired' ELSE state END = ANY (%(only)s::text[])
ORDER BY chunk_index LIMIT %(limit)s

-- name: receipt
SELECT /* dpone:receipt */ run_key, chunk_index, receipt_id, plan_hash, contract_hash, binding, epoch, rows, bytes, nulled,
       committed_at, diagnostics
FROM {schema}.__dpone__chunk_receipts WHERE run_key = %(run_key)s AND chunk_index = %(chunk_index)s

-- name: receipt_totals
SELECT /* dpone:receipt_totals */ count(*) AS receipts, coalesce(sum(rows), 0)::bigint AS rows,
       count(*) FILTER (WHERE plan_hash <> %(plan_hash)s OR contract_hash <> %(contract_hash)s) AS foreign_receipts,
       count(*) FILTER (WHERE diagnostics ? 'rows_read') AS differing_receipts
FROM {schema}.__dpone__chunk_receipts WHERE run_key = %(run_key)s

-- name: digest_totals
SELECT /* dpone:digest_totals */ count(source) AS receipts, coalesce(sum(source), 0) AS source,
       coalesce(sum(coalesce(target, source)), 0) AS target, count(target) AS differing
FROM (
    SELECT (diagnostics ->> 'digest')::numeric AS source, (diagnostics ->> 'target_digest')::numeric AS target
    FROM {schema}.__dpone__chunk_receipts WHERE run_key = %(run_key)s
) AS digest

-- name: digests_differing
SELECT /* dpone:digests_differing */ chunk_index FROM {schema}.__dpone__chunk_receipts
WHERE run_key = %(run_key)s AND diagnostics ? 'target_digest' ORDER BY chunk_index LIMIT %(limit)s

-- name: start_load
INSERT /* dpone:start_load */ INTO {schema}.__dpone__loads (load_id, dataset, kind, run_id)
VALUES (%(load_id)s, %(dataset)s, %(kind)s, %(run_id)s)
ON CONFLICT (load_id) DO NOTHING

-- name: finish_load
UPDATE /* dpone:finish_load */ {schema}.__dpone__loads
SET status = %(status)s, finished_at = clock_timestamp(), facts = facts || %(facts)s WHERE load_id = %(load_id)s

-- name: record_step
INSERT /* dpone:record_step */ INTO {schema}.__dpone__load_steps (load_id, step, status, seconds, facts)
VALUES (%(load_id)s, %(step)s, %(status)s, %(seconds)s, %(facts)s)

-- name: prove_locks
WITH held AS (
    SELECT (l.classid::bigint << 32) | l.objid::bigint AS key, l.mode FROM pg_locks l
    WHERE l.pid = pg_backend_pid() AND l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
)
SELECT /* dpone:prove_locks */
    EXISTS (SELECT FROM held WHERE key = %(chunk_lock)s AND mode = 'ExclusiveLock') AS chunk_locked,
    EXISTS (SELECT FROM held WHERE key = %(campaign_lock)s) AS campaign_locked

-- name: insert_receipt
-- The receipt is the first write, and only if this very session may make it. Its rows are filled in after the COPY.
WITH held AS (
    SELECT (l.classid::bigint << 32) | l.objid::bigint AS key, l.mode FROM pg_locks l
    WHERE l.pid = pg_backend_pid() AND l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
), fence AS (
    SELECT
        EXISTS (
            SELECT FROM {schema}.__dpone__backfill_chunks
            WHERE run_key = %(run_key)s AND chunk_index = %(chunk_index)s AND epoch = %(epoch)s AND state = 'running'
        ) AS epoch_is_ours,
        EXISTS (SELECT FROM held WHERE key = %(chunk_lock)s AND mode = 'ExclusiveLock') AS chunk_locked,
        EXISTS (SELECT FROM held WHERE key = %(campaign_lock)s) AS campaign_locked
), written AS (
    INSERT INTO {schema}.__dpone__chunk_receipts
        (run_key, chunk_index, receipt_id, plan_hash, contract_hash, binding, epoch, rows, bytes, run_id)
    SELECT %(run_key)s, %(chunk_index)s, %(receipt_id)s, %(plan_hash)s, %(contract_hash)s, %(binding)s, %(epoch)s,
           0, 0, %(run_id)s
    FROM fence WHERE epoch_is_ours AND chunk_locked AND campaign_locked
)
SELECT /* dpone:insert_receipt */ epoch_is_ours, chunk_locked, campaign_locked FROM fence

-- name: complete_receipt
UPDATE /* dpone:complete_receipt */ {schema}.__dpone__chunk_receipts
SET rows = %(rows)s, bytes = %(bytes)s, nulled = %(nulled)s, diagnostics = diagnostics || %(diagnostics)s,
    committed_at = clock_timestamp()
WHERE run_key = %(run_key)s AND chunk_index = %(chunk_index)s AND receipt_id = %(receipt_id)s
RETURNING committed_at

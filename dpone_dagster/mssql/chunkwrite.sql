-- name: insert_receipt
-- The receipt is the first write, and only if this very session may make it. Its rows are filled in after the INSERT.
DECLARE @run_key nvarchar(64) = ?, @chunk_index int = ?, @epoch bigint = ?, @chunk_lock nvarchar(255) = ?,
        @campaign_lock nvarchar(255) = ?;
DECLARE @epoch_is_ours int = 0, @chunk_locked int = 0, @campaign_locked int = 0;
SELECT @epoch_is_ours = 1 FROM {schema}.__dpone__backfill_chunks
WHERE run_key = @run_key AND chunk_index = @chunk_index AND epoch = @epoch AND state = N'running';
IF APPLOCK_MODE('public', @chunk_lock, 'Session') = 'Exclusive' SET @chunk_locked = 1;
IF APPLOCK_MODE('public', @campaign_lock, 'Session') <> 'NoLock' SET @campaign_locked = 1;
INSERT /* dpone:insert_receipt */ INTO {schema}.__dpone__chunk_receipts
    (run_key, chunk_index, receipt_id, plan_hash, contract_hash, binding, epoch, [rows], bytes, run_id)
SELECT @run_key, @chunk_index, n.receipt_id, n.plan_hash, n.contract_hash, n.binding, @epoch, 0, 0, n.run_id
FROM (SELECT ? AS receipt_id, ? AS plan_hash, ? AS contract_hash, ? AS binding, ? AS run_id) AS n
WHERE @epoch_is_ours = 1 AND @chunk_locked = 1 AND @campaign_locked = 1;
SELECT @epoch_is_ours, @chunk_locked, @campaign_locked

-- name: prove_locks
SELECT /* dpone:prove_locks */
    CASE WHEN APPLOCK_MODE('public', ?, 'Session') = 'Exclusive' THEN 1 ELSE 0 END,
    CASE WHEN APPLOCK_MODE('public', ?, 'Session') <> 'NoLock' THEN 1 ELSE 0 END

-- name: create_stage
SELECT /* dpone:create_stage */ TOP (0) {columns} INTO {stage} FROM {table} AS t

-- name: insert_rows
INSERT /* dpone:insert_chunk {label} */ INTO {table} ({columns})
SELECT {values} FROM {stage} AS s

-- name: delete_slice
-- Not TRUNCATE, which waits for every reader and needs the right to alter the table.
DELETE /* dpone:delete_slice {label} */ FROM {table} WHERE {in_slice}

-- name: count_staged
SELECT /* dpone:count_staged */ COUNT_BIG(*) FROM {stage}

-- name: complete_receipt
UPDATE /* dpone:complete_receipt */ {schema}.__dpone__chunk_receipts
SET [rows] = ?, bytes = ?, nulled = ?, diagnostics = ?, committed_at = SYSUTCDATETIME()
WHERE run_key = ? AND chunk_index = ? AND receipt_id = ?;
SELECT committed_at FROM {schema}.__dpone__chunk_receipts WHERE run_key = ? AND chunk_index = ? AND receipt_id = ?

-- name: old_stages
SELECT /* dpone:old_stages */ t.name FROM sys.tables AS t JOIN sys.schemas AS s ON s.schema_id = t.schema_id
WHERE s.name = ? AND LEFT(t.name, ?) = ?

-- name: drop_stage
-- Whoever still writes to it may be dying; it is found again later, so nobody waits longer than this.
SET LOCK_TIMEOUT 1000;
DROP TABLE IF EXISTS {stage};
SET LOCK_TIMEOUT -1

-- name: wait_again
SET LOCK_TIMEOUT -1

-- name: unfinished_campaigns
SELECT /* dpone:unfinished_of_any_target */ run_key FROM {schema}.__dpone__backfill_campaigns
WHERE phase NOT IN (N'published', N'handoff_committed', N'rolled_back', N'cancelled')

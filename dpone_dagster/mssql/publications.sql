-- Publication receipts, handoffs and checkpoints. They are written under the target's lock, inside the caller's
-- transaction; the constraints hold all the same.

-- name: head
SELECT /* dpone:publication_head */ TOP (1) * FROM {schema}.__dpone__publications WITH (READCOMMITTEDLOCK)
WHERE target = ? ORDER BY sequence DESC

-- name: of_campaign
SELECT /* dpone:publication_of_campaign */ * FROM {schema}.__dpone__publications WITH (READCOMMITTEDLOCK)
WHERE run_key = ? AND kind = ?

-- name: receipt
SELECT /* dpone:publication_receipt */ * FROM {schema}.__dpone__publications WITH (READCOMMITTEDLOCK)
WHERE receipt_id = ?

-- name: record
INSERT /* dpone:record_publication */ INTO {schema}.__dpone__publications ({columns})
SELECT {marks}
WHERE ? = 1 OR EXISTS (SELECT 1 FROM {schema}.__dpone__publications WHERE receipt_id = ?)

-- name: close_head
UPDATE /* dpone:close_head */ p SET head = N'closed'
FROM {schema}.__dpone__publications AS p
WHERE p.receipt_id = ? AND p.head = N'pending' AND NOT EXISTS (
    SELECT 1 FROM {schema}.__dpone__publications AS later
    WHERE later.target = p.target AND later.sequence > p.sequence
)

-- name: record_drop
UPDATE /* dpone:record_drop */ {schema}.__dpone__publications
SET backup_dropped_at = SYSUTCDATETIME(), backup_dropped_by = ?
WHERE receipt_id = ? AND backup_dropped_at IS NULL

-- name: checkpoint
SELECT /* dpone:checkpoint */ * FROM {schema}.__dpone__xmin_checkpoints WITH (READCOMMITTEDLOCK)
WHERE target = ? AND generation = ?

-- name: handoff_owner
SELECT /* dpone:handoff_owner */ source, target FROM {schema}.__dpone__xmin_handoffs WITH (READCOMMITTEDLOCK)
WHERE handoff_id = ?

-- name: claim_handoff
INSERT /* dpone:claim_handoff */ INTO {schema}.__dpone__xmin_handoffs (handoff_id, source, target)
SELECT ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM {schema}.__dpone__xmin_handoffs WHERE handoff_id = ?)

-- name: seed
INSERT /* dpone:seed_checkpoint */ INTO {schema}.__dpone__xmin_checkpoints (
    target, generation, handoff_id, publication_receipt, anchor_xid, anchor_system_identifier, anchor_timeline,
    anchor_database_oid, anchor_taken_at, revision, reconciled
)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, CAST(? AS datetime2(6)), ?, ?
WHERE EXISTS (SELECT 1 FROM {schema}.__dpone__publications WHERE receipt_id = ?)
  AND NOT EXISTS (SELECT 1 FROM {schema}.__dpone__xmin_checkpoints WHERE target = ? AND generation = ?)

-- name: rewind
UPDATE /* dpone:rewind_checkpoint */ {schema}.__dpone__xmin_checkpoints
SET anchor_xid = ?, anchor_taken_at = CAST(? AS datetime2(6)),
    revision = revision + 1, reconciled = 0, updated_at = SYSUTCDATETIME()
WHERE target = ? AND generation = ? AND revision = ? AND anchor_xid > ? AND anchor_system_identifier = ?
  AND anchor_database_oid = ?

-- name: recorded_anchors
SELECT /* dpone:recorded_anchors */ DISTINCT
    JSON_VALUE(facts, '$.anchor_xid') AS anchor_xid, JSON_VALUE(facts, '$.anchor_taken_at') AS anchor_taken_at
FROM {schema}.__dpone__load_steps
WHERE status = N'succeeded' AND JSON_VALUE(facts, '$.generation') = ? AND JSON_VALUE(facts, '$.anchor_xid') IS NOT NULL

-- name: reopen
UPDATE /* dpone:reopen_checkpoint */ {schema}.__dpone__xmin_checkpoints
SET revision = revision + 1, reconciled = 0, updated_at = SYSUTCDATETIME()
WHERE target = ? AND generation = ?

-- name: advance
-- Ids of different clusters have no order, so only the same one's can go forward; a new timeline may have begun before
-- the last ids of the old one.
UPDATE /* dpone:advance_checkpoint */ {schema}.__dpone__xmin_checkpoints
SET anchor_xid = ?, anchor_timeline = ?, anchor_taken_at = CAST(? AS datetime2(6)),
    revision = revision + 1, reconciled = ?, updated_at = SYSUTCDATETIME()
WHERE target = ? AND generation = ? AND revision = ?
  AND (anchor_xid <= ? OR anchor_timeline < ?) AND anchor_system_identifier = ? AND anchor_database_oid = ?

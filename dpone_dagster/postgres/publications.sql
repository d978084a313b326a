-- Publication receipts, handoffs and checkpoints. They are written under the target's lock, inside the caller's
-- transaction; the constraints hold all the same.

-- name: head
SELECT /* dpone:publication_head */ * FROM {schema}.__dpone__publications
WHERE target = %(target)s ORDER BY sequence DESC LIMIT 1

-- name: of_campaign
SELECT /* dpone:publication_of_campaign */ * FROM {schema}.__dpone__publications
WHERE run_key = %(run_key)s AND kind = %(kind)s

-- name: receipt
SELECT /* dpone:publication_receipt */ * FROM {schema}.__dpone__publications WHERE receipt_id = %(receipt_id)s

-- name: record
INSERT /* dpone:record_publication */ INTO {schema}.__dpone__publications (
    receipt_id, target, sequence, kind, run_key, generation, predecessor_receipt, live_object_id, backup, expected_rows,
    actual_rows, object_contract_sha256, head, handoff_id, approved_by, reason
) VALUES (
    %(receipt_id)s, %(target)s, %(sequence)s, %(kind)s, %(run_key)s, %(generation)s, %(predecessor_receipt)s,
    %(live_object_id)s, %(backup)s, %(expected_rows)s, %(actual_rows)s, %(object_contract_sha256)s, %(head)s,
    %(handoff_id)s, %(approved_by)s, %(reason)s
)

-- name: close_head
UPDATE /* dpone:close_head */ {schema}.__dpone__publications AS p SET head = 'closed'
WHERE p.receipt_id = %(receipt_id)s AND p.head = 'pending' AND NOT EXISTS (
    SELECT FROM {schema}.__dpone__publications AS later
    WHERE later.target = p.target AND later.sequence > p.sequence
)

-- name: record_drop
UPDATE /* dpone:record_drop */ {schema}.__dpone__publications
SET backup_dropped_at = clock_timestamp(), backup_dropped_by = %(approved_by)s
WHERE receipt_id = %(receipt_id)s AND backup_dropped_at IS NULL

-- name: checkpoint
SELECT /* dpone:checkpoint */ * FROM {schema}.__dpone__xmin_checkpoints
WHERE target = %(target)s AND generation = %(generation)s

-- name: handoff_owner
SELECT /* dpone:handoff_owner */ source, target FROM {schema}.__dpone__xmin_handoffs WHERE handoff_id = %(handoff_id)s

-- name: claim_handoff
INSERT /* dpone:claim_handoff */ INTO {schema}.__dpone__xmin_handoffs (handoff_id, source, target)
VALUES (%(handoff_id)s, %(source)s, %(target)s)
ON CONFLICT (handoff_id) DO NOTHING

-- name: seed
INSERT /* dpone:seed_checkpoint */ INTO {schema}.__dpone__xmin_checkpoints (
    target, generation, handoff_id, source, publication_receipt, anchor_xid, anchor_system_identifier, anchor_timeline,
    anchor_database_oid, anchor_taken_at, revision, reconciled
) VALUES (
    %(target)s, %(generation)s, %(handoff_id)s, %(source)s, %(publication_receipt)s, %(anchor_xid)s,
    %(anchor_system_identifier)s, %(anchor_timeline)s, %(anchor_database_oid)s, %(anchor_taken_at)s, %(revision)s,
    %(reconciled)s
)
ON CONFLICT (target, generation) DO NOTHING

-- name: rewind
UPDATE /* dpone:rewind_checkpoint */ {schema}.__dpone__xmin_checkpoints
SET anchor_xid = %(anchor_xid)s, anchor_taken_at = %(anchor_taken_at)s,
    revision = revision + 1, reconciled = false, updated_at = clock_timestamp()
WHERE target = %(target)s AND generation = %(generation)s AND revision = %(revision)s
  AND anchor_xid > %(anchor_xid)s AND anchor_system_identifier = %(anchor_system_identifier)s
  AND anchor_database_oid = %(anchor_database_oid)s

-- name: recorded_anchors
SELECT /* dpone:recorded_anchors */ DISTINCT
    facts ->> 'anchor_xid' AS anchor_xid, facts ->> 'anchor_taken_at' AS anchor_taken_at
FROM {schema}.__dpone__load_steps
WHERE status = 'succeeded' AND facts ->> 'generation' = %(generation)s AND facts ->> 'anchor_xid' IS NOT NULL

-- name: reopen
UPDATE /* dpone:reopen_checkpoint */ {schema}.__dpone__xmin_checkpoints
SET revision = revision + 1, reconciled = false, updated_at = clock_timestamp()
WHERE target = %(target)s AND generation = %(generation)s

-- name: advance
-- Ids of different clusters have no order, so only the same one's can go forward; a new timeline may have begun before
-- the last ids of the old one.
UPDATE /* dpone:advance_checkpoint */ {schema}.__dpone__xmin_checkpoints
SET anchor_xid = %(anchor_xid)s, anchor_timeline = %(anchor_timeline)s, anchor_taken_at = %(anchor_taken_at)s,
    revision = revision + 1, reconciled = %(reconciled)s, updated_at = clock_timestamp()
WHERE target = %(target)s AND generation = %(generation)s AND revision = %(revision)s
  AND (anchor_xid <= %(anchor_xid)s OR anchor_timeline < %(anchor_timeline)s)
  AND anchor_system_identifier = %(anchor_system_identifier)s AND anchor_database_oid = %(anchor_database_oid)s

-- Braces hold quoted names, and expressions and conditions made of them. Stages are tables of their own, made over a
-- second session: the bulk copy that fills them has to see them, so they cannot belong to the increment's transaction.

-- name: old_stages
SELECT /* dpone:old_stages */ t.name FROM sys.tables AS t JOIN sys.schemas AS s ON s.schema_id = t.schema_id
WHERE s.name = ? AND LEFT(t.name, ?) = ?

-- name: create_stage
-- Types, lengths and collations are the target's; its constraints are not wanted here.
SELECT /* dpone:create_stage */ TOP (0) {columns} INTO {stage} FROM {target} AS t

-- name: drop
DROP TABLE IF EXISTS {table}

-- name: duplicates
SELECT /* dpone:duplicate_keys */ COUNT_BIG(*)
FROM (SELECT 1 AS one FROM {stage} GROUP BY {key} HAVING COUNT_BIG(*) > 1) AS duplicate

-- name: staged
SELECT /* dpone:count_staged */ COUNT_BIG(*) FROM {stage}

-- name: stage_more
INSERT /* dpone:stage_more */ INTO {rows} SELECT m.* FROM {more} AS m
WHERE NOT EXISTS (SELECT 1 FROM {rows} AS r WHERE {match})

-- name: extra_keys
SELECT /* dpone:extra_keys */ {columns} INTO {extra} FROM {target} AS t
WHERE {in_buckets} AND {present} AND NOT EXISTS (SELECT 1 FROM {keys} AS k WHERE {match})

-- name: missing_keys
SELECT /* dpone:missing_keys */ COUNT_BIG(*) FROM {keys} AS k
WHERE NOT EXISTS (SELECT 1 FROM {target} AS t WHERE {in_target} AND {present}) {not_staged}

-- name: not_staged
AND NOT EXISTS (SELECT 1 FROM {rows} AS r WHERE {match})

-- name: delete_unmatched
DELETE /* dpone:delete_unmatched */ t FROM {target} AS t WHERE EXISTS (SELECT 1 FROM {extra} AS e WHERE {match})

-- name: mark_unmatched
UPDATE /* dpone:mark_unmatched */ t SET {mark} = {marked} FROM {target} AS t JOIN {extra} AS e ON {match}

-- name: changed
-- EXCEPT tells rows apart with NULLs, and the expressions tell values apart that the collation takes for equal.
EXISTS (SELECT {new} EXCEPT SELECT {old}) OR NOT {present}

-- name: update_changed
UPDATE /* dpone:update_changed */ t SET {assignments} FROM {target} AS t JOIN {rows} AS s ON {match} WHERE {changed}

-- name: delete_changed
DELETE /* dpone:delete_changed */ t FROM {target} AS t JOIN {rows} AS s ON {match} WHERE {changed}

-- name: insert_new
INSERT /* dpone:insert_new */ INTO {target} ({columns}) SELECT {values} FROM {rows} AS s
WHERE NOT EXISTS (SELECT 1 FROM {target} AS t WHERE {match})

-- name: count_arrived
SELECT /* dpone:count_arrived */ COUNT_BIG(*) FROM {rows} AS s
WHERE EXISTS (SELECT 1 FROM {target} AS t WHERE {match})

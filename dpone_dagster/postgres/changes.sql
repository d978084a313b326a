-- All braces are filled with identifiers, or conditions made of them; no statement here takes parameters.

-- name: is_staged
SELECT /* dpone:is_staged */ to_regclass({name}) IS NOT NULL

-- name: create_stage
-- Types, lengths and collations are the target's; its constraints are not wanted here.
CREATE TEMPORARY TABLE {name} ON COMMIT DROP AS SELECT /* dpone:create_stage */ {columns} FROM {target} WITH NO DATA

-- name: copy_stage
COPY {name} ({columns}) FROM STDIN (FORMAT {format}) /* dpone:copy_stage */

-- name: analyze
ANALYZE {name} /* dpone:analyze_stage */

-- name: drop
DROP TABLE {name} /* dpone:drop_stage */

-- name: duplicates
SELECT /* dpone:duplicate_keys */ count(*) FROM (SELECT FROM {name} GROUP BY {key} HAVING count(*) > 1) AS duplicate

-- name: stage_more
INSERT /* dpone:stage_more */ INTO {rows} SELECT m.* FROM {more} AS m
WHERE NOT EXISTS (SELECT FROM {rows} AS r WHERE {match})

-- name: extra_keys
CREATE TEMPORARY TABLE {name} ON COMMIT DROP AS
SELECT /* dpone:extra_keys */ {key} FROM {target} AS t
WHERE {in_buckets} AND {present} AND NOT EXISTS (SELECT FROM {keys} AS k WHERE {match})

-- name: missing_keys
SELECT /* dpone:missing_keys */ count(*) FROM {keys} AS k
WHERE NOT EXISTS (SELECT FROM {target} AS t WHERE {in_target} AND {present}) {not_staged}

-- name: not_staged
AND NOT EXISTS (SELECT FROM {rows} AS r WHERE {match})

-- name: delete_unmatched
DELETE /* dpone:delete_unmatched */ FROM {target} AS t USING {extra} AS e WHERE {match}

-- name: mark_unmatched
UPDATE /* dpone:mark_unmatched */ {target} AS t SET {mark} = {marked} FROM {extra} AS e WHERE {match}

-- name: changed
-- The binary image tells rows apart whatever their types, json and xml included; equal ones are left alone.
{match} AND (ROW({old})::record OPERATOR(pg_catalog.*<>) ROW({new})::record OR NOT {present})

-- name: update_changed
UPDATE /* dpone:update_changed */ {target} AS t SET {assignments} FROM {rows} AS s WHERE {changed}

-- name: delete_changed
DELETE /* dpone:delete_changed */ FROM {target} AS t USING {rows} AS s WHERE {changed}

-- name: insert_new
INSERT /* dpone:insert_new */ INTO {target} ({columns}) SELECT {columns} FROM {rows} AS s
WHERE NOT EXISTS (SELECT FROM {target} AS t WHERE {match})

-- name: count_arrived
SELECT /* dpone:count_arrived */ count(*) FROM {rows} AS s WHERE EXISTS (SELECT FROM {target} AS t WHERE {match})

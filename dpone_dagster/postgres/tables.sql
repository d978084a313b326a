-- name: key_quality
-- GROUP BY compares by each column's own collation, as the unique index will. A group's surplus rows are counted.
SELECT /* dpone:key_quality */
    (SELECT count(*) FROM {table} WHERE {any_null}),
    (SELECT coalesce(sum(surplus), 0)::bigint FROM (
        SELECT count(*) - 1 AS surplus FROM {table} WHERE NOT ({any_null}) GROUP BY {key} HAVING count(*) > 1
    ) AS duplicate)

-- name: domain
SELECT /* dpone:domain */ (SELECT system_identifier FROM pg_control_system())::text || '/' || d.oid::text AS domain
FROM pg_database d WHERE d.datname = current_database()

-- name: insert_staged
INSERT /* dpone:insert_staged */ INTO {table} ({columns}) SELECT {columns} FROM {stage}

-- name: room
-- How much room its disks have is told to no client.
SELECT /* dpone:room */ clock_timestamp(), (
    SELECT pg_total_relation_size(c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %(schema)s AND c.relname = %(name)s
)

-- name: delete_slice
DELETE /* dpone:delete_slice */ FROM {table} WHERE {rows}

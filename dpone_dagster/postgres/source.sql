-- name: identity
SELECT /* dpone:identity */
    (SELECT system_identifier::text FROM pg_control_system()),
    (SELECT timeline_id FROM pg_control_checkpoint()),
    (SELECT oid::bigint FROM pg_database WHERE datname = current_database())

-- name: snapshot
SELECT /* dpone:snapshot */
    pg_snapshot_xmin(s)::text::numeric::bigint,
    pg_snapshot_xmax(s)::text::numeric::bigint,
    clock_timestamp()
FROM pg_current_snapshot() s

-- name: readable
SELECT /* dpone:readable */
    has_schema_privilege(%(schema)s, 'USAGE') AND (
        has_table_privilege(%(oid)s::oid, 'SELECT')
        OR NOT EXISTS (
            SELECT FROM pg_attribute
            WHERE attrelid = %(oid)s::oid AND attname = ANY (%(columns)s) AND attnum > 0
              AND NOT has_column_privilege(%(oid)s::oid, attnum, 'SELECT')
        )
    )

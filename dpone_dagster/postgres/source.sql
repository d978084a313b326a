-- name: settle_session
-- Row security must fail rather than hide rows, and no object of the login's own schemas may stand for a built-in one.
SELECT /* dpone:settle_session */
    set_config('row_security', 'off', false), set_config('search_path', 'pg_catalog', false)

-- name: server
-- The control file learns of a promotion with the next checkpoint only; the name of the WAL file, and what a standby
-- receives, at once. Who may not see the receiver sees a row of NULLs.
SELECT /* dpone:server */
    (SELECT system_identifier::text FROM pg_control_system()) AS system_identifier,
    CASE
        WHEN pg_is_in_recovery() THEN GREATEST(
            (SELECT timeline_id FROM pg_control_checkpoint()), (SELECT received_tli FROM pg_stat_wal_receiver)
        )
        ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer
    END AS timeline,
    (SELECT oid::bigint FROM pg_database WHERE datname = current_database()) AS database_oid,
    pg_snapshot_xmin(pg_current_snapshot())::text AS xmin,
    pg_snapshot_xmax(pg_current_snapshot())::text AS xmax,
    pg_is_in_recovery() AS in_recovery,
    EXISTS (SELECT FROM pg_stat_wal_receiver WHERE received_tli IS NULL) AS timeline_hidden,
    clock_timestamp() AS taken_at

-- name: relation
SELECT /* dpone:relation */
    CASE WHEN c.relkind = 'p' AND EXISTS (
        SELECT FROM pg_partition_tree(c.oid) p JOIN pg_class leaf ON leaf.oid = p.relid WHERE leaf.relkind = 'f'
    ) THEN 'f' ELSE c.relkind::text END,
    has_schema_privilege(c.relnamespace, 'USAGE') AND has_table_privilege(c.oid, 'SELECT'),
    row_security_active(c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(name)s

-- name: catalog
-- Two digests over the table itself, its children and the columns that are read: whatever can change rows without changing their xmin,
-- or the values that a projection sends. The digest over all columns differs from one over named ones in its first
-- word, so that a column that was added is seen where all are loaded, and only there.
WITH RECURSIVE here AS (
    SELECT c.oid, c.relkind, CASE WHEN c.relkind IN ('v', 'm') THEN pg_get_viewdef(c.oid) END AS view
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %(schema)s AND c.relname = %(name)s
), tree AS (
    SELECT oid FROM here
    UNION
    SELECT h.inhrelid FROM pg_inherits h JOIN tree ON h.inhparent = tree.oid
), facts AS (
    SELECT a.attnum, a.attname::text AS name, a.attname = ANY (%(columns)s::text[]) AS read, jsonb_build_array(
        a.attnum, a.attname, tn.nspname, t.typname, a.atttypmod, t.typbasetype, t.typtypmod,
        con.nspname, co.collname, a.attnotnull, a.attgenerated,
        CASE WHEN a.attgenerated <> '' THEN pg_get_expr(d.adbin, d.adrelid) END,
        (SELECT jsonb_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid IN (t.oid, t.typelem))
    ) AS fact
    FROM here
    JOIN pg_attribute a ON a.attrelid = here.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_type t ON t.oid = a.atttypid
    JOIN pg_namespace tn ON tn.oid = t.typnamespace
    LEFT JOIN pg_collation co ON co.oid = a.attcollation
    LEFT JOIN pg_namespace con ON con.oid = co.collnamespace
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
)
SELECT /* dpone:catalog */
    encode(sha256(convert_to(jsonb_build_array(
        'all', here.relkind, view, (SELECT jsonb_agg(oid ORDER BY oid) FROM tree),
        (SELECT jsonb_agg(fact ORDER BY attnum) FROM facts)
    )::text, 'UTF8')), 'hex') AS all_columns,
    encode(sha256(convert_to(jsonb_build_array(
        'named', here.relkind, view, (SELECT jsonb_agg(oid ORDER BY oid) FROM tree),
        (SELECT jsonb_agg(fact ORDER BY attnum) FROM facts WHERE read)
    )::text, 'UTF8')), 'hex') AS named_columns
FROM here

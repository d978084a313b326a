-- name: columns
-- A domain is unfolded to the type that it is made of. Only what is defined by PostgreSQL itself has a bare name.
WITH RECURSIVE here AS (
    SELECT c.oid, c.relkind FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %(schema)s AND c.relname = %(name)s AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
), unfolded AS (
    SELECT a.attnum, a.atttypid AS type, a.atttypmod AS modifier
    FROM here JOIN pg_catalog.pg_attribute a ON a.attrelid = here.oid AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT u.attnum, t.typbasetype, t.typtypmod
    FROM unfolded u JOIN pg_catalog.pg_type t ON t.oid = u.type AND t.typtype = 'd'
), named AS (
    SELECT t.oid, t.typtype, t.typname, t.typcollation, n.nspname,
           t.oid < 16384 AND n.nspname = 'pg_catalog' AS built_in,
           EXISTS (SELECT FROM pg_catalog.pg_type e WHERE e.oid = t.typelem AND e.typarray = t.oid) AS is_array
    FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
)
SELECT /* dpone:columns */
    here.oid::bigint,
    here.relkind::text,
    a.attname::text,
    CASE WHEN t.built_in THEN t.typname::text ELSE t.nspname || '.' || t.typname END,
    CASE
        WHEN t.is_array THEN 'array'
        WHEN t.typtype = 'e' THEN 'enum'
        WHEN t.typtype = 'c' THEN 'composite'
        WHEN t.typtype IN ('r', 'm') THEN 'range'
        ELSE 'base'
    END,
    u.modifier,
    CASE WHEN declared.built_in THEN pg_catalog.format_type(a.atttypid, a.atttypmod)
         ELSE declared.nspname || '.' || declared.typname END,
    CASE WHEN a.attcollation <> t.typcollation THEN con.nspname || '.' || co.collname END,
    a.attnotnull AND NOT EXISTS ( -- NOT NULL NOT VALID says nothing about the rows that are there
        SELECT FROM pg_catalog.pg_constraint k
        WHERE k.conrelid = here.oid AND k.contype = 'n' AND k.conkey = ARRAY[a.attnum] AND NOT k.convalidated
    ),
    a.atthasdef OR a.attidentity <> ''
FROM here
LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = here.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN named declared ON declared.oid = a.atttypid
LEFT JOIN unfolded u ON u.attnum = a.attnum
LEFT JOIN named t ON t.oid = u.type
LEFT JOIN pg_catalog.pg_collation co ON co.oid = a.attcollation
LEFT JOIN pg_catalog.pg_namespace con ON con.oid = co.collnamespace
WHERE t.typtype IS DISTINCT FROM 'd'
ORDER BY a.attnum

-- name: columns
WITH RECURSIVE bases AS (
    SELECT a.attnum, a.atttypid AS type, a.atttypmod AS modifier
    FROM pg_attribute a
    JOIN pg_class c ON c.oid = a.attrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %(schema)s AND c.relname = %(name)s AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT b.attnum, t.typbasetype, t.typtypmod
    FROM bases b JOIN pg_type t ON t.oid = b.type
    WHERE t.typtype = 'd'
)
SELECT /* dpone:columns */
    c.oid::bigint,
    c.relkind::text,
    a.attname::text,
    CASE tn.nspname WHEN 'pg_catalog' THEN t.typname::text ELSE tn.nspname || '.' || t.typname END,
    CASE
        WHEN t.typcategory = 'A' THEN 'array'
        WHEN t.typtype = 'e' THEN 'enum'
        WHEN t.typtype = 'c' THEN 'composite'
        WHEN t.typtype IN ('r', 'm') THEN 'range'
        ELSE 'base'
    END,
    b.modifier,
    format_type(b.type, b.modifier),
    CASE WHEN a.attcollation <> t.typcollation THEN co.collname::text END,
    a.attnotnull,
    a.atthasdef OR a.attidentity <> ''
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN bases b ON b.attnum = a.attnum
LEFT JOIN pg_type t ON t.oid = b.type
LEFT JOIN pg_namespace tn ON tn.oid = t.typnamespace
LEFT JOIN pg_collation co ON co.oid = a.attcollation
WHERE n.nspname = %(schema)s AND c.relname = %(name)s AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
  AND (t.typtype IS NULL OR t.typtype <> 'd')
ORDER BY a.attnum

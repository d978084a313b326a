-- name: lacking
SELECT /* dpone:lacking_rights */ w.place, w.permission FROM (
    SELECT 'table ' || %(schema)s || '.' || %(name)s AS place, 'ownership' AS permission, pg_has_role(c.relowner, 'USAGE') AS held
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = %(schema)s AND c.relname = %(name)s AND %(use)s = 'publish'
    UNION ALL
    SELECT 'table ' || %(schema)s || '.' || %(name)s, p.permission, has_table_privilege(c.oid, p.permission)
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    CROSS JOIN (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) AS p (permission)
    WHERE n.nspname = %(schema)s AND c.relname = %(name)s AND %(use)s = 'write'
    UNION ALL
    SELECT 'database ' || current_database(), 'TEMPORARY', has_database_privilege(current_database(), 'TEMPORARY')
    WHERE %(use)s = 'write'
    UNION ALL
    SELECT 'schema ' || n.nspname, p.permission, has_schema_privilege(n.oid, p.permission)
    FROM pg_namespace AS n CROSS JOIN (VALUES ('USAGE'), ('CREATE')) AS p (permission)
    WHERE n.nspname = %(schema)s AND (p.permission = 'USAGE' OR %(use)s = 'publish')
       OR n.nspname = %(state)s AND (p.permission = 'USAGE' OR NOT EXISTS (
        SELECT FROM pg_class AS t WHERE t.relnamespace = n.oid AND t.relname = '__dpone__schema_version'
    ))
    UNION ALL
    SELECT 'database ' || current_database(), 'CREATE', has_database_privilege(current_database(), 'CREATE')
    WHERE %(state)s <> '' AND NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = %(state)s)
    UNION ALL
    SELECT 'table ' || n.nspname || '.' || c.relname, p.permission, has_table_privilege(c.oid, p.permission)
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    CROSS JOIN (VALUES ('SELECT'), ('INSERT'), ('UPDATE')) AS p (permission)
    WHERE n.nspname = %(state)s AND c.relkind = 'r' AND starts_with(c.relname, '__dpone__')
        AND (p.permission = 'SELECT' OR c.relname <> '__dpone__schema_version')
) AS w
WHERE NOT w.held
ORDER BY w.place, w.permission

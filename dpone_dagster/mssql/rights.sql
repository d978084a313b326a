-- Rights of this login, as the server evaluates them: granted, implied or by membership, and not denied. NULL means that
-- there is no such schema, or that the server does not know the right.

-- name: lacking
SELECT /* dpone:lacking_rights */ w.place, w.permission
FROM (
    SELECT N'database' AS place, N'CREATE TABLE' AS permission,
           HAS_PERMS_BY_NAME(QUOTENAME(DB_NAME()), N'DATABASE', N'CREATE TABLE') AS held
    UNION ALL
    SELECT N'database', N'CREATE SCHEMA', HAS_PERMS_BY_NAME(QUOTENAME(DB_NAME()), N'DATABASE', N'CREATE SCHEMA')
    WHERE SCHEMA_ID(?) IS NULL
    UNION ALL
    SELECT CONCAT(N'schema ', s.name), p.permission, HAS_PERMS_BY_NAME(QUOTENAME(s.name), N'SCHEMA', p.permission)
    FROM sys.schemas AS s
    CROSS JOIN (
        SELECT N'SELECT' AS permission UNION ALL SELECT N'INSERT' UNION ALL SELECT N'UPDATE' UNION ALL SELECT N'DELETE'
        UNION ALL SELECT N'ALTER'
    ) AS p
    WHERE s.name IN (?, ?)
) AS w
WHERE w.held = 0
ORDER BY w.place, w.permission

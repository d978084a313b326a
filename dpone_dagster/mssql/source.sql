-- What a source on SQL Server is asked. Braces hold quoted names, texts and conditions.

-- name: relation
-- A type that somebody has defined is the type that it is made of; one of the common language runtime has none.
-- Flags of a column are read with `c.*`, by name: a version of the server that lacks one has nothing to say by it.
SELECT /* dpone:source_relation */ c.*, RTRIM(o.type) AS kind, b.name AS base_name, y.name AS type_name
FROM sys.objects AS o
JOIN sys.columns AS c ON c.object_id = o.object_id
LEFT JOIN sys.types AS b ON b.user_type_id = c.system_type_id
LEFT JOIN sys.types AS y ON y.user_type_id = c.user_type_id
WHERE o.object_id = OBJECT_ID({named}) AND o.type IN ('U', 'V')
ORDER BY c.column_id

-- name: readable
SELECT /* dpone:source_readable */ HAS_PERMS_BY_NAME({named}, N'OBJECT', N'SELECT') AS may_select,
       CASE WHEN HAS_PERMS_BY_NAME(DB_NAME(), N'DATABASE', N'UNMASK') = 1
              OR HAS_PERMS_BY_NAME({named}, N'OBJECT', N'UNMASK') = 1 THEN 1 ELSE 0 END AS may_unmask,
       (SELECT snapshot_isolation_state FROM sys.databases WHERE database_id = DB_ID()) AS snapshot_state,
       (SELECT COUNT(*) FROM sys.all_views WHERE schema_id = SCHEMA_ID(N'sys') AND name = N'security_predicates')
           AS has_policies

-- name: filters
SELECT /* dpone:source_filters */ COUNT(*)
FROM sys.security_predicates AS p
JOIN sys.security_policies AS s ON s.object_id = p.object_id
WHERE p.target_object_id = OBJECT_ID({named}) AND p.predicate_type_desc = 'FILTER' AND s.is_enabled = 1

-- name: clock
SELECT /* dpone:source_clock */ SYSUTCDATETIME()

-- name: begin
SET TRANSACTION ISOLATION LEVEL SNAPSHOT /* dpone:begin_snapshot */;
BEGIN TRANSACTION

-- name: end
IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION

-- name: first
-- The snapshot is taken by the first access to data: what alters the table from then on makes every read of it fail.
SELECT /* dpone:touch_source */ COUNT(*) FROM (SELECT TOP (1) 1 AS one FROM {table} AS t) AS f

-- name: catalog
SELECT /* dpone:source_catalog */ o.object_id, RTRIM(o.type) AS kind, c.column_id, c.name,
       b.name AS base_name, y.name AS type_name, c.max_length, c.precision, c.scale, c.collation_name,
       c.is_nullable, c.is_computed, m.definition AS computed_as,
       CASE o.type WHEN 'V' THEN OBJECT_DEFINITION(o.object_id) END AS view_text
FROM sys.objects AS o
JOIN sys.columns AS c ON c.object_id = o.object_id
LEFT JOIN sys.types AS b ON b.user_type_id = c.system_type_id
LEFT JOIN sys.types AS y ON y.user_type_id = c.user_type_id
LEFT JOIN sys.computed_columns AS m ON m.object_id = c.object_id AND m.column_id = c.column_id
WHERE o.object_id = OBJECT_ID({named}) AND o.type IN ('U', 'V')
ORDER BY c.column_id

-- name: rows
SELECT /* dpone:{query} */ {values} FROM {table} AS s WHERE {rows}

-- name: refused
SELECT /* dpone:refused_row */ TOP (1) {digest} FROM {table} AS s WHERE ({rows}) AND ({bad})

-- name: has_rows
SELECT /* dpone:has_rows */ CASE WHEN EXISTS (SELECT 1 FROM {table} AS s WHERE {rows}) THEN 1 ELSE 0 END

-- name: count_outside
SELECT /* dpone:count_outside */ COUNT_BIG(*) FROM {table} AS s WHERE {column} IS NULL OR NOT ({rows})

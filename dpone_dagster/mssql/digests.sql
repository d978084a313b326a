-- Braces hold quoted names and expressions made of them.

-- name: columns
SELECT /* dpone:column_types */ c.name, y.name AS type
FROM sys.columns AS c
JOIN sys.types AS y ON y.user_type_id = c.system_type_id
JOIN sys.tables AS t ON t.object_id = c.object_id
JOIN sys.schemas AS s ON s.schema_id = t.schema_id
WHERE s.name = ? AND t.name = ?

-- name: probe
SELECT /* dpone:hash_probe */ HASHBYTES('SHA2_256', CAST(? AS nvarchar(20)))

-- name: key_buckets
SELECT /* dpone:key_buckets */ {bucket}, COUNT_BIG(*), CONVERT(nvarchar(40), SUM({summand}))
FROM (SELECT {digest} AS digest FROM {table} AS t WHERE {only}) AS h
GROUP BY {bucket} ORDER BY {bucket}

-- name: row_buckets
SELECT /* dpone:row_buckets */ {bucket}, COUNT_BIG(*), CONVERT(nvarchar(40), SUM({summand}))
FROM (SELECT {place} AS place, {content} AS content FROM {table} AS t WHERE {only}) AS h
GROUP BY {bucket} ORDER BY {bucket}

-- name: known_text
SELECT /* dpone:known_text */ {kind} AS kind, CAST({text} AS nvarchar(100)) AS text
FROM (SELECT {value} AS known) AS v

-- name: content_digest
SELECT /* dpone:content_digest */ COUNT_BIG(*), COALESCE(CONVERT(nvarchar(40), SUM({summand})), N'0')
FROM (SELECT {digest} AS digest FROM {table} AS t) AS h

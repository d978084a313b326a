-- Reads of the exact catalog of one table, every view qualified by its database. Flags are read with `SELECT t.*`, by
-- name: a version of the server that has one more of them has it noticed, and one that lacks one has it not.
-- Braces hold quoted names and lists of marks.

-- name: named
-- Head of the batch that the blocks below are sent in: whatever the name means meanwhile, they tell of one object.
DECLARE @id int = OBJECT_ID(?)

-- name: object
SELECT /* dpone:object */ o.object_id, RTRIM(o.type) AS type, o.name, s.name AS schema_name
FROM {database}.sys.objects AS o
JOIN {database}.sys.schemas AS s ON s.schema_id = o.schema_id
WHERE o.object_id = @id

-- name: table
SELECT /* dpone:table */ t.*,
       CASE WHEN t.lob_data_space_id = 0 OR f.is_default = 1 THEN 1 ELSE 0 END AS lob_on_default_filegroup
FROM {database}.sys.tables AS t
LEFT JOIN {database}.sys.filegroups AS f ON f.data_space_id = t.lob_data_space_id
WHERE t.object_id = @id

-- name: columns
SELECT /* dpone:columns */ c.*, y.name AS type_name, y.is_user_defined AS type_is_user_defined,
       y.is_assembly_type AS type_is_assembly
FROM {database}.sys.columns AS c
LEFT JOIN {database}.sys.types AS y ON y.user_type_id = c.user_type_id
WHERE c.object_id = @id
ORDER BY c.column_id

-- name: indexes
SELECT /* dpone:indexes */ i.*, p.data_compression_desc AS compression, p.partition_count, d.type AS data_space_type,
       CASE WHEN f.is_default = 1 THEN 1 ELSE 0 END AS on_default_filegroup, st.no_recompute
FROM {database}.sys.indexes AS i
LEFT JOIN (
    SELECT index_id, MIN(data_compression_desc) AS data_compression_desc, COUNT(*) AS partition_count
    FROM {database}.sys.partitions WHERE object_id = @id GROUP BY index_id
) AS p ON p.index_id = i.index_id
LEFT JOIN {database}.sys.data_spaces AS d ON d.data_space_id = i.data_space_id
LEFT JOIN {database}.sys.filegroups AS f ON f.data_space_id = i.data_space_id
LEFT JOIN {database}.sys.stats AS st ON st.object_id = i.object_id AND st.stats_id = i.index_id
WHERE i.object_id = @id
ORDER BY i.index_id

-- name: index_columns
SELECT /* dpone:index_columns */ x.*, c.name AS column_name
FROM {database}.sys.index_columns AS x
JOIN {database}.sys.columns AS c ON c.object_id = x.object_id AND c.column_id = x.column_id
WHERE x.object_id = @id
ORDER BY x.index_id, x.key_ordinal, x.index_column_id

-- name: statistics
SELECT /* dpone:statistics */ st.stats_id, st.name, st.no_recompute, st.has_filter, st.filter_definition,
       st.is_incremental, c.name AS column_name
FROM {database}.sys.stats AS st
JOIN {database}.sys.stats_columns AS x ON x.object_id = st.object_id AND x.stats_id = st.stats_id
JOIN {database}.sys.columns AS c ON c.object_id = x.object_id AND c.column_id = x.column_id
WHERE st.object_id = @id AND st.user_created = 1
ORDER BY st.stats_id, x.stats_column_id

-- name: views
SELECT /* dpone:catalog_views */ name FROM {database}.sys.all_objects WHERE name IN ({names})

-- name: rows_exist
SELECT /* dpone:rows_exist */ COUNT(*) FROM (SELECT TOP (1) 1 AS one FROM {table}) AS t

-- name: dependents
-- One part for each of the views below that the server has.
SELECT /* dpone:dependents */ kind, name FROM (
{parts}
) AS lost ORDER BY kind, name

-- name: sees_everything
-- Grants, policies and foreign keys of others are left out of the catalog for a login without this right.
SELECT /* dpone:sees_everything */ CASE WHEN HAS_PERMS_BY_NAME(QUOTENAME(DB_NAME()), 'DATABASE', 'VIEW DEFINITION') = 1
    OR HAS_PERMS_BY_NAME(QUOTENAME(DB_NAME()), 'DATABASE', 'CONTROL') = 1 THEN 1 ELSE 0 END AS everything

-- name: generation
SELECT /* dpone:generation */ CAST(value AS nvarchar(128)) AS generation FROM {database}.sys.extended_properties
WHERE class = 1 AND major_id = @id AND minor_id = 0 AND name = {generation}

-- name: dependent_foreign_keys
SELECT 'foreign key' AS kind, name FROM {database}.sys.foreign_keys WHERE parent_object_id = @id
UNION ALL
SELECT 'inbound foreign key', name FROM {database}.sys.foreign_keys
WHERE referenced_object_id = @id AND parent_object_id <> @id

-- name: dependent_triggers
SELECT 'trigger' AS kind, name FROM {database}.sys.triggers WHERE parent_id = @id

-- name: dependent_check_constraints
SELECT 'check constraint' AS kind, name FROM {database}.sys.check_constraints WHERE parent_object_id = @id

-- name: dependent_default_constraints
SELECT 'default' AS kind, name FROM {database}.sys.default_constraints WHERE parent_object_id = @id

-- name: dependent_key_constraints
SELECT CASE WHEN type = 'PK' THEN 'primary key' ELSE 'unique constraint' END AS kind, name
FROM {database}.sys.key_constraints WHERE parent_object_id = @id

-- name: dependent_database_permissions
-- The server's own words have a collation of their own, whatever the database's is, and are not joined with its names.
SELECT 'permission' AS kind, CONCAT(
    r.state_desc COLLATE DATABASE_DEFAULT, ' ', r.permission_name COLLATE DATABASE_DEFAULT, ' to ',
    g.name COLLATE DATABASE_DEFAULT
) AS name
FROM {database}.sys.database_permissions AS r
LEFT JOIN {database}.sys.database_principals AS g ON g.principal_id = r.grantee_principal_id
WHERE r.class = 1 AND r.major_id = @id

-- name: dependent_extended_properties
SELECT 'extended property' AS kind, name FROM {database}.sys.extended_properties
WHERE class IN (1, 7) AND major_id = @id AND NOT (class = 1 AND minor_id = 0 AND name IN ({own}))

-- name: dependent_change_tracking_tables
SELECT 'change tracking' AS kind, 'change tracking' AS name
FROM {database}.sys.change_tracking_tables WHERE object_id = @id

-- name: dependent_security_predicates
SELECT 'security policy' AS kind, OBJECT_NAME(object_id) AS name
FROM {database}.sys.security_predicates WHERE target_object_id = @id

-- name: dependent_fulltext_indexes
SELECT 'full-text index' AS kind, 'full-text index' AS name
FROM {database}.sys.fulltext_indexes WHERE object_id = @id

-- name: dependent_sensitivity_classifications
SELECT 'sensitivity classification' AS kind, CONCAT('column ', minor_id) AS name
FROM {database}.sys.sensitivity_classifications WHERE class = 1 AND major_id = @id

-- name: dependent_index_resumable_operations
SELECT 'resumable operation' AS kind, name FROM {database}.sys.index_resumable_operations WHERE object_id = @id

-- name: dependent_sql_expression_dependencies
SELECT DISTINCT 'schema-bound object' AS kind,
       CONCAT(OBJECT_SCHEMA_NAME(referencing_id), '.', OBJECT_NAME(referencing_id)) AS name
FROM {database}.sys.sql_expression_dependencies
WHERE referenced_id = @id AND referencing_id <> @id AND is_schema_bound_reference = 1

-- name: loadable
-- Everything that decides what an INSERT into the table does, in one round trip.
SELECT /* dpone:loadable */ N'column' AS kind, c.column_id AS place, c.name, TYPE_NAME(c.user_type_id) AS said,
       c.max_length, c.precision, c.scale, c.collation_name, c.is_nullable, c.is_identity, c.is_computed, c.default_object_id
FROM {database}.sys.columns AS c WHERE c.object_id = {id}
UNION ALL
SELECT N'property', 0, name, CAST(value AS nvarchar(128)), 0, 0, 0, NULL, 0, 0, 0, 0 FROM {database}.sys.extended_properties
WHERE class = 1 AND major_id = {id} AND minor_id = 0 AND name IN ({owner}, {generation})
UNION ALL
SELECT N'trigger', 0, name, NULL, 0, 0, 0, NULL, 0, 0, 0, 0 FROM {database}.sys.triggers WHERE parent_id = {id}
UNION ALL
SELECT N'check', 0, name, NULL, 0, 0, 0, NULL, 0, 0, 0, 0 FROM {database}.sys.check_constraints WHERE parent_object_id = {id}
UNION ALL
SELECT N'dropped duplicates', 0, name, NULL, 0, 0, 0, NULL, 0, 0, 0, 0 FROM {database}.sys.indexes
WHERE object_id = {id} AND ignore_dup_key = 1

-- name: object_id
SELECT /* dpone:object_id */ OBJECT_ID(?)

-- name: property
SELECT /* dpone:property */ CAST(value AS nvarchar(128)) FROM {database}.sys.extended_properties
WHERE class = 1 AND major_id = ? AND minor_id = 0 AND name = ?

-- name: keeps_index_names
-- Whether the catalog shows an index by the name that it was given.
CREATE TABLE #dpone_names (a int);
CREATE INDEX dpone_names_a ON #dpone_names (a);
SELECT /* dpone:keeps_index_names */ COUNT(*) AS kept
FROM tempdb.sys.indexes WHERE object_id = OBJECT_ID(N'tempdb..#dpone_names') AND name = N'dpone_names_a';
DROP TABLE #dpone_names

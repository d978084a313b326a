-- name: domain
-- Names alone can be equal on two servers; the times at which the database was made and tempdb was started are not.
SELECT /* dpone:domain */ CONCAT(
    CONVERT(nvarchar(128), SERVERPROPERTY('ServerName')), '/', DB_NAME(), '/', DB_ID(), '/',
    CONVERT(nvarchar(40), d.create_date, 126), '/', CONVERT(nvarchar(40), t.create_date, 126)
)
FROM sys.databases AS d CROSS JOIN sys.databases AS t
WHERE d.database_id = DB_ID() AND t.name = 'tempdb'

-- name: clock
SELECT /* dpone:clock */ SYSUTCDATETIME()

-- name: data_room
-- Pages that no object has, and what the files may grow by, but no more than their volume has. dm_os_volume_stats needs
-- VIEW SERVER STATE (2022: VIEW SERVER PERFORMANCE STATE).
SELECT /* dpone:data_room */
    CAST(SUM(v.unused + CASE WHEN v.growth < v.available THEN v.growth ELSE v.available END) AS bigint)
FROM (
    SELECT SUM(CAST(f.size - FILEPROPERTY(f.name, 'SpaceUsed') AS bigint)) * 8192 AS unused,
           SUM(CASE WHEN f.growth = 0 THEN CAST(0 AS bigint) WHEN f.max_size = -1 THEN s.available_bytes
                    ELSE CAST(f.max_size - f.size AS bigint) * 8192 END) AS growth,
           MAX(s.available_bytes) AS available
    FROM sys.database_files AS f CROSS APPLY sys.dm_os_volume_stats(DB_ID(), f.file_id) AS s
    WHERE f.type = 0 GROUP BY s.volume_mount_point
) AS v

-- name: log_room
SELECT /* dpone:log_room */ CAST(
    (SELECT u.total_log_size_in_bytes - u.used_log_space_in_bytes FROM sys.dm_db_log_space_usage AS u)
    + SUM(CASE WHEN v.growth < v.available THEN v.growth ELSE v.available END) AS bigint)
FROM (
    SELECT SUM(CASE WHEN f.growth = 0 THEN CAST(0 AS bigint) WHEN f.max_size = -1 THEN s.available_bytes
                    ELSE CAST(f.max_size - f.size AS bigint) * 8192 END) AS growth,
           MAX(s.available_bytes) AS available
    FROM sys.database_files AS f CROSS APPLY sys.dm_os_volume_stats(DB_ID(), f.file_id) AS s
    WHERE f.type = 1 GROUP BY s.volume_mount_point
) AS v

-- name: table_bytes
-- In-row and overflow pages belong to a heap or B-tree, LOB pages to a partition.
SELECT /* dpone:table_bytes */ SUM(CAST(a.total_pages AS bigint)) * 8192
FROM sys.partitions AS p JOIN sys.allocation_units AS a
    ON a.container_id = CASE WHEN a.type IN (1, 3) THEN p.hobt_id ELSE p.partition_id END
WHERE p.object_id = OBJECT_ID(?)

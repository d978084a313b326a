-- name: domain
-- Names alone can be equal on two servers; the times at which the database was made and tempdb was started are not.
SELECT /* dpone:domain */ CONCAT(
    CONVERT(nvarchar(128), SERVERPROPERTY('ServerName')), '/', DB_NAME(), '/', DB_ID(), '/',
    CONVERT(nvarchar(40), d.create_date, 126), '/', CONVERT(nvarchar(40), t.create_date, 126)
)
FROM sys.databases AS d CROSS JOIN sys.databases AS t
WHERE d.database_id = DB_ID() AND t.name = 'tempdb'

-- Gives one login the rights that a dpone campaign needs on SQL Server 2019 or later, and no other; then checks them.
-- Run it as a member of sysadmin, or as the database's owner where login and user exist already. It can be run again.
--
--   export dpone_database=dwh dpone_target_schema=landing dpone_state_schema=system
--   export dpone_login=dpone_loader dpone_password='…'      -- not by -v: others see a command's arguments
--   sqlcmd -S dwh.example -b -i deploy/mssql/setup.sql
--
-- docs/sqlserver.md says what each right is for. UNVERIFIED on SQL Server; the portable part ran on Babelfish 4.3.

USE [$(dpone_database)];
GO
IF SUSER_ID(N'$(dpone_login)') IS NULL
    CREATE LOGIN [$(dpone_login)] WITH PASSWORD = N'$(dpone_password)';
GO
IF DATABASE_PRINCIPAL_ID(N'$(dpone_login)') IS NULL
    CREATE USER [$(dpone_login)] FOR LOGIN [$(dpone_login)];
GO
IF DATABASE_PRINCIPAL_ID(N'dpone_campaign') IS NULL
    CREATE ROLE [dpone_campaign];
GO
ALTER ROLE [dpone_campaign] ADD MEMBER [$(dpone_login)];
GO
IF SCHEMA_ID(N'$(dpone_state_schema)') IS NULL
    EXEC (N'CREATE SCHEMA [$(dpone_state_schema)]');
GO
GRANT SELECT, INSERT, UPDATE, DELETE ON SCHEMA::[$(dpone_target_schema)] TO [dpone_campaign];
GO
GRANT SELECT, INSERT, UPDATE, DELETE ON SCHEMA::[$(dpone_state_schema)] TO [dpone_campaign];
GO
GRANT ALTER ON SCHEMA::[$(dpone_target_schema)] TO [dpone_campaign];
GO
GRANT ALTER ON SCHEMA::[$(dpone_state_schema)] TO [dpone_campaign];
GO
GRANT CREATE TABLE TO [dpone_campaign];
GO
GRANT VIEW DEFINITION TO [dpone_campaign];
GO

-- The check, as the login itself: the batch fails and names what is lacking.
EXECUTE AS USER = N'$(dpone_login)';
GO
DECLARE @lacking nvarchar(2000);
SELECT @lacking = STRING_AGG(CONCAT(w.permission, N' on ', w.place), N', ')
FROM (
    SELECT N'database' AS place, p.permission,
           HAS_PERMS_BY_NAME(QUOTENAME(DB_NAME()), N'DATABASE', p.permission) AS held
    FROM (SELECT N'CREATE TABLE' AS permission UNION ALL SELECT N'VIEW DEFINITION') AS p
    UNION ALL
    SELECT CONCAT(N'schema ', s.name), p.permission, HAS_PERMS_BY_NAME(QUOTENAME(s.name), N'SCHEMA', p.permission)
    FROM (SELECT N'$(dpone_target_schema)' AS name UNION SELECT N'$(dpone_state_schema)') AS s
    CROSS JOIN (
        SELECT N'SELECT' AS permission UNION ALL SELECT N'INSERT' UNION ALL SELECT N'UPDATE' UNION ALL SELECT N'DELETE'
        UNION ALL SELECT N'ALTER'
    ) AS p
) AS w
WHERE COALESCE(w.held, 0) = 0;
IF @lacking IS NOT NULL
    RAISERROR (N'the login lacks %s', 16, 1, @lacking);
GO
REVERT;
PRINT N'the login has every right that a campaign needs';
GO

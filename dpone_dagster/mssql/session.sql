-- name: settings
-- Every option that changes what a statement means, whatever the login's or the database's defaults are.
SET XACT_ABORT ON;
SET NOCOUNT ON;
SET IMPLICIT_TRANSACTIONS OFF;
SET CURSOR_CLOSE_ON_COMMIT OFF;
SET ANSI_NULLS ON;
SET ANSI_NULL_DFLT_ON ON;
SET ANSI_PADDING ON;
SET ANSI_WARNINGS ON;
SET ARITHABORT ON;
SET CONCAT_NULL_YIELDS_NULL ON;
SET QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
SET LANGUAGE us_english;
SET DATEFORMAT ymd;
SET DATEFIRST 7;
SET ROWCOUNT 0;
SET TEXTSIZE 2147483647;
SET LOCK_TIMEOUT -1;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED

-- name: who
SELECT /* dpone:who */ CAST(@@SPID AS int) AS session_id, DB_NAME() AS database_name

-- name: login_at
-- A login without further rights sees its own session here.
SELECT /* dpone:login_at */ CAST(DATEADD(minute, -DATEPART(tz, SYSDATETIMEOFFSET()), s.login_time) AS datetime2(3))
FROM sys.dm_exec_sessions AS s WHERE s.session_id = @@SPID

-- name: begin
SET XACT_ABORT ON;
BEGIN TRANSACTION

-- name: commit
COMMIT TRANSACTION;
SELECT /* dpone:committed */ @@TRANCOUNT

-- name: rollback
IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION

-- name: changed
SELECT ROWCOUNT_BIG()

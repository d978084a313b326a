-- Application locks. The principal is `public`, so that every login of the database takes part in them.
-- A witness is a second lock whose name holds the session id of the first one's holder.

-- name: lock_session
DECLARE @code int, @witness int;
EXEC /* dpone:lock_session */ @code = sp_getapplock
    @Resource = ?, @LockMode = ?, @LockOwner = 'Session', @LockTimeout = ?, @DbPrincipal = 'public';
IF @code >= 0
    EXEC @witness = sp_getapplock
        @Resource = ?, @LockMode = ?, @LockOwner = 'Session', @LockTimeout = 0, @DbPrincipal = 'public';
SELECT @code, @witness, CAST(@@SPID AS int)

-- name: lock_transaction
DECLARE @code int, @witness int;
EXEC /* dpone:lock_transaction */ @code = sp_getapplock
    @Resource = ?, @LockMode = 'Exclusive', @LockOwner = 'Transaction', @LockTimeout = ?, @DbPrincipal = 'public';
IF @code >= 0
    EXEC @witness = sp_getapplock
        @Resource = ?, @LockMode = 'Exclusive', @LockOwner = 'Transaction', @LockTimeout = 0, @DbPrincipal = 'public';
SELECT @code, @witness

-- name: release
-- Releasing what is not held would raise, and end a transaction with it; so the mode is looked at first.
DECLARE @resource nvarchar(255) = ?, @witness nvarchar(255) = ?, @mode nvarchar(32) = ?, @code int, @ignored int;
DECLARE @held nvarchar(32) = APPLOCK_MODE('public', @resource, 'Session');
IF @held = 'Exclusive' OR (@mode = 'Shared' AND @held <> 'NoLock')
BEGIN
    IF APPLOCK_MODE('public', @witness, 'Session') <> 'NoLock'
        EXEC @ignored = sp_releaseapplock @Resource = @witness, @LockOwner = 'Session', @DbPrincipal = 'public';
    EXEC @code = sp_releaseapplock @Resource = @resource, @LockOwner = 'Session', @DbPrincipal = 'public'
END;
SELECT /* dpone:release_lock */ COALESCE(@code, -1), CAST(@@SPID AS int)

-- name: held
-- 1 is free; APPLOCK_TEST asks for no right beyond being in the database.
SELECT /* dpone:held_locks */ r.place, APPLOCK_TEST('public', r.resource, 'Exclusive', 'Session') AS free
FROM OPENJSON(CAST(? AS nvarchar(max))) WITH (place int '$[0]', resource nvarchar(255) '$[1]') AS r

-- name: holders
-- Sessions that this login may see, and the lower numbers beside them: SQL Server gives the lowest free one.
-- A witness that cannot be had shared is held; one that can is nobody's; one held shared tells a shared lock.
SELECT /* dpone:lock_holders */ found.session_id, found.mode, s.program_name,
       CAST(DATEADD(minute, -DATEPART(tz, SYSDATETIMEOFFSET()), s.login_time) AS datetime2(3)) AS login_at
FROM (
    SELECT candidate.session_id,
           CASE WHEN APPLOCK_TEST('public', CONCAT(?, '/by/', candidate.session_id), 'Exclusive', 'Session') = 1
                THEN NULL
                WHEN APPLOCK_TEST('public', CONCAT(?, '/by/', candidate.session_id), 'Shared', 'Session') = 1
                THEN 'shared'
                ELSE 'exclusive' END AS mode
    FROM (
        SELECT CAST(session_id AS int) AS session_id FROM sys.dm_exec_sessions
        UNION
        SELECT TOP (?) CAST(ROW_NUMBER() OVER (ORDER BY object_id, column_id) AS int) + 50 FROM sys.all_columns
    ) AS candidate
) AS found
LEFT JOIN sys.dm_exec_sessions AS s ON s.session_id = found.session_id
WHERE found.mode IS NOT NULL
ORDER BY found.session_id

-- name: sees_sessions
SELECT /* dpone:sees_sessions */ CASE WHEN HAS_PERMS_BY_NAME(NULL, NULL, 'VIEW SERVER STATE') = 1
    OR HAS_PERMS_BY_NAME(NULL, NULL, 'VIEW SERVER PERFORMANCE STATE') = 1 THEN 1 ELSE 0 END

-- name: end_session
-- KILL takes no parameter. Its number and the login time are looked at in one go, since numbers are used again.
DECLARE @found int = (
    SELECT COUNT(*) FROM sys.dm_exec_sessions AS s WHERE s.session_id = {session}
    AND CAST(DATEADD(minute, -DATEPART(tz, SYSDATETIMEOFFSET()), s.login_time) AS datetime2(3)) = CAST(? AS datetime2(3))
);
IF @found = 1 KILL {session};
SELECT /* dpone:end_session */ @found

-- name: copying
-- Bulk sessions say in their context what they work on; a campaign, a chunk and an epoch are one try.
SELECT /* dpone:copying_sessions */ CAST(s.session_id AS int), s.context_info,
       CAST(DATEADD(minute, -DATEPART(tz, SYSDATETIMEOFFSET()), s.login_time) AS datetime2(3)) AS login_at
FROM sys.dm_exec_sessions AS s WHERE s.program_name LIKE N'dpone % bulk'

-- name: claims
SELECT /* dpone:claims_of_session */ c.chunk_index, c.epoch
FROM {schema}.__dpone__backfill_chunks AS c
WHERE c.run_key = ? AND c.state = N'running' AND c.session_id = ? AND c.session_login_at = CAST(? AS datetime2(3))

-- name: test
SELECT /* dpone:test_lock */ APPLOCK_TEST('public', ?, 'Exclusive', 'Session')

-- name: has_chunks
SELECT /* dpone:has_chunks */ COUNT(*) FROM sys.tables AS t JOIN sys.schemas AS s ON s.schema_id = t.schema_id
WHERE s.name = ? AND t.name = '__dpone__backfill_chunks'

-- name: running
SELECT /* dpone:running_chunks */ c.chunk_index, c.session_id, c.session_login_at,
       COALESCE(
           s.program_name COLLATE DATABASE_DEFAULT,
           CONCAT('run ', c.worker_run_id COLLATE DATABASE_DEFAULT, ' lane ', c.worker_lane)
       ) AS name
FROM {schema}.__dpone__backfill_chunks AS c
LEFT JOIN sys.dm_exec_sessions AS s
    ON s.session_id = c.session_id
    AND CAST(DATEADD(minute, -DATEPART(tz, SYSDATETIMEOFFSET()), s.login_time) AS datetime2(3)) = c.session_login_at
WHERE c.run_key = ? AND c.state = N'running' AND c.session_id IS NOT NULL
ORDER BY c.chunk_index

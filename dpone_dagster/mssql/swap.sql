-- name: lock
-- Two renamings take the lock that the swap itself needs, and keep it until the transaction ends. A lock hint would be
-- weaker: it lets readers of row versions through, who then stand in the way of the swap.
BEGIN TRY
    SET LOCK_TIMEOUT {milliseconds};
    {rename_there};
    {rename_back};
    SET LOCK_TIMEOUT -1;
    SELECT /* dpone:lock_table */ CAST(NULL AS nvarchar(max)) AS blocker
END TRY
BEGIN CATCH
    SET LOCK_TIMEOUT -1;
    IF ERROR_NUMBER() <> 1222
        THROW;
    BEGIN TRY
        EXEC sp_executesql N'
SELECT /* dpone:lock_blockers */ CONCAT(N''session '', l.request_session_id, N'' ('', COALESCE(NULLIF(s.program_name, N''''),
    N''no name''), N''), logged in '', CONVERT(nvarchar(19), s.login_time, 120)) AS blocker
FROM sys.dm_tran_locks AS l
LEFT JOIN sys.dm_exec_sessions AS s ON s.session_id = l.request_session_id
WHERE l.resource_database_id = DB_ID() AND l.resource_type = N''OBJECT''
    AND l.resource_associated_entity_id = @id AND l.request_session_id <> @@SPID', N'@id int', @id = ?
    END TRY
    BEGIN CATCH
        SELECT N'a session that this login may not see (VIEW SERVER STATE would name it)' AS blocker
    END CATCH
END CATCH

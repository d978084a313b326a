-- name: lock
-- Two renamings take the lock that the swap itself needs, and keep it until the transaction ends. A lock hint would be
-- weaker: it lets readers of row versions through, who then stand in the way of the swap.
SET LOCK_TIMEOUT {milliseconds};
{rename_there};
{rename_back};
SET LOCK_TIMEOUT -1

-- name: wait_again
SET LOCK_TIMEOUT -1

-- name: blockers
SELECT /* dpone:lock_blockers */ CONCAT(N'session ', l.request_session_id, N' (', COALESCE(NULLIF(s.program_name, N''),
    N'no name'), N'), logged in ', CONVERT(nvarchar(19), s.login_time, 120))
FROM sys.dm_tran_locks AS l
LEFT JOIN sys.dm_exec_sessions AS s ON s.session_id = l.request_session_id
WHERE l.resource_database_id = DB_ID() AND l.resource_type = N'OBJECT'
    AND l.resource_associated_entity_id = ? AND l.request_session_id NOT IN (@@SPID, ?)
ORDER BY l.request_session_id

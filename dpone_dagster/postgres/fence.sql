-- name: lock_exclusive
SELECT /* dpone:lock_exclusive */ pg_advisory_lock(%(key)s)

-- name: lock_shared
SELECT /* dpone:lock_shared */ pg_advisory_lock_shared(%(key)s)

-- name: try_exclusive
SELECT /* dpone:try_lock_exclusive */ pg_try_advisory_lock(%(key)s)

-- name: try_shared
SELECT /* dpone:try_lock_shared */ pg_try_advisory_lock_shared(%(key)s)

-- name: unlock_exclusive
SELECT /* dpone:unlock_exclusive */ pg_advisory_unlock(%(key)s)

-- name: unlock_shared
SELECT /* dpone:unlock_shared */ pg_advisory_unlock_shared(%(key)s)

-- name: lock_transaction
SELECT /* dpone:lock_transaction */ pg_advisory_xact_lock(%(key)s)

-- name: set_lock_timeout
SELECT /* dpone:set_lock_timeout */ set_config('lock_timeout', %(value)s, true)

-- name: lock_timeout
SELECT /* dpone:lock_timeout */ current_setting('lock_timeout')

-- name: backend_pid
SELECT /* dpone:backend_pid */ pg_backend_pid()

-- name: held
SELECT /* dpone:held_locks */ DISTINCT (l.classid::bigint << 32) | l.objid::bigint AS key FROM pg_locks l
WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted AND l.pid <> pg_backend_pid()
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())

-- name: holders
-- A login without pg_read_all_stats does not see when others logged in; their claims tell it.
SELECT /* dpone:holders */ held.key, held.mode = 'ShareLock' AS shared, held.pid, a.backend_start,
       coalesce(nullif(a.application_name, ''), 'no name') AS name
FROM (
    SELECT (l.classid::bigint << 32) | l.objid::bigint AS key, l.mode, l.pid FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
) AS held
LEFT JOIN pg_stat_activity a ON a.pid = held.pid
WHERE held.key = ANY (%(keys)s)
ORDER BY held.pid, held.key

-- name: end_session
-- A login that may not see the session sees no login time.
SELECT /* dpone:end_session */ a.backend_start IS NOT NULL AS seen,
       CASE WHEN a.backend_start = %(login_at)s THEN pg_terminate_backend(a.pid) ELSE false END AS ended
FROM pg_stat_activity a WHERE a.pid = %(session_id)s

-- name: has_chunks
SELECT /* dpone:has_chunks */ EXISTS (
    SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %(schema)s AND c.relname = '__dpone__backfill_chunks'
)

-- name: running
SELECT /* dpone:running_chunks */ chunk_index, session_id, session_login_at
FROM {schema}.__dpone__backfill_chunks WHERE run_key = %(run_key)s AND state = 'running'

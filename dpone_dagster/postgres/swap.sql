-- name: blockers
SELECT /* dpone:lock_blockers */
    CASE WHEN l.pid IS NULL THEN 'a prepared transaction'
         ELSE format('session %%s (%%s), since %%s', l.pid, coalesce(nullif(a.application_name, ''), 'no name'),
                     coalesce(a.xact_start, a.backend_start)::text) END
FROM pg_locks l
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'relation' AND l.relation = %(oid)s
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.pid IS DISTINCT FROM pg_backend_pid()
ORDER BY l.granted DESC, l.pid

-- "Older" compares 32-bit transaction ids across the wrap: the distance to the horizon lies in the upper half.

-- name: seal
SELECT /* dpone:seal */ pg_snapshot_xmax(pg_current_snapshot())::text::bigint

-- name: settled
SELECT /* dpone:settled */
    ((c.relfrozenxid::text::bigint - %(horizon)s) & 4294967295) < 2147483648 AS frozen, c.reltuples >= 0 AS analyzed
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(name)s

-- name: older
-- A logical walsender keeps catalog rows only, and a VACUUM keeps nothing, so neither is in the way.
SELECT /* dpone:older_snapshots */
    format('session %%s (%%s), since %%s', a.pid, coalesce(nullif(a.application_name, ''), 'no name'),
           coalesce(a.xact_start, a.backend_start)::text)
FROM pg_stat_activity a
WHERE a.pid <> pg_backend_pid()
  AND (a.datname = current_database() OR a.datid IS NULL AND a.backend_type = 'walsender')
  AND NOT (a.datid IS NOT NULL AND a.backend_type = 'walsender')
  AND NOT EXISTS (SELECT FROM pg_stat_progress_vacuum v WHERE v.pid = a.pid)
  AND (((a.backend_xmin::text::bigint - %(horizon)s) & 4294967295) >= 2147483648
    OR ((a.backend_xid::text::bigint - %(horizon)s) & 4294967295) >= 2147483648)
UNION ALL
SELECT format('prepared transaction %%s of %%s, since %%s', p.gid, p.owner, p.prepared::text)
FROM pg_prepared_xacts p
WHERE p.database = current_database() AND ((p.transaction::text::bigint - %(horizon)s) & 4294967295) >= 2147483648
UNION ALL
SELECT format('replication slot %%s, which keeps the rows of a standby''s old snapshot', s.slot_name)
FROM pg_replication_slots s
WHERE ((s.xmin::text::bigint - %(horizon)s) & 4294967295) >= 2147483648

-- The course of a campaign. Every statement aggregates; none returns a row a chunk, but the few that are asked for.

-- name: course
SELECT /* dpone:course */ MIN(started_at) AS started_at,
       CASE WHEN SUM(CASE WHEN state = N'running' THEN 1 ELSE 0 END) > 0 THEN SYSUTCDATETIME() ELSE MAX(finished_at) END
           AS ended_at,
       SYSUTCDATETIME() AS now
FROM {schema}.__dpone__backfill_chunks WHERE run_key = ? AND state <> N'pending'

-- name: groups
SELECT /* dpone:chunk_groups */ MIN(c.chunk_index) AS first, MAX(c.chunk_index) AS last,
    SUM(CASE WHEN c.state = N'pending' THEN 1 ELSE 0 END) AS pending,
    SUM(CASE WHEN c.state = N'running' AND c.expired = 0 THEN 1 ELSE 0 END) AS running,
    SUM(CASE WHEN c.state = N'committed' THEN 1 ELSE 0 END) AS committed,
    SUM(CASE WHEN c.state = N'failed' THEN 1 ELSE 0 END) AS failed,
    SUM(CASE WHEN c.state = N'lease_expired' OR c.state = N'running' AND c.expired = 1 THEN 1 ELSE 0 END)
        AS lease_expired,
    CAST(COALESCE(SUM(CASE WHEN c.state = N'committed' THEN c.[rows] ELSE 0 END), 0) AS bigint) AS [rows],
    COALESCE(SUM(CASE WHEN c.state = N'committed' THEN c.seconds ELSE 0 END), 0) AS seconds,
    COALESCE(MAX(CASE WHEN c.state = N'committed' THEN c.seconds ELSE 0 END), 0) AS longest_seconds
FROM (
    SELECT chunk_index / CAST(? AS int) AS place, chunk_index, state, [rows], seconds,
           CASE WHEN lease_expires_at <= SYSUTCDATETIME() THEN 1 ELSE 0 END AS expired
    FROM {schema}.__dpone__backfill_chunks WHERE run_key = ?
) AS c
GROUP BY c.place ORDER BY MIN(c.chunk_index)

-- name: slowest
-- The longest chunks are in the blocks whose longest chunks are the longest; more blocks than chunks are never needed.
SELECT /* dpone:slowest_chunks */ TOP (?) c.* FROM (
    SELECT o.*, CAST(0 AS bit) AS expired, o.seconds AS took
    FROM (
        SELECT TOP (?) t.block FROM {schema}.__dpone__chunk_tallies AS t WHERE t.run_key = ? AND t.committed > 0
        ORDER BY t.longest_seconds DESC, t.block
    ) AS b
    JOIN {schema}.__dpone__backfill_chunks AS o
        ON o.run_key = ? AND o.chunk_index >= b.block * CAST(? AS int)
       AND o.chunk_index < (b.block + 1) * CAST(? AS int)
    WHERE o.state = N'committed'
    UNION ALL
    SELECT o.*, CAST(CASE WHEN o.lease_expires_at <= SYSUTCDATETIME() THEN 1 ELSE 0 END AS bit),
           DATEDIFF_BIG(millisecond, o.started_at, SYSUTCDATETIME()) / 1000e0
    FROM {schema}.__dpone__backfill_chunks AS o
    WHERE o.run_key = ? AND o.state <> N'committed' AND o.started_at IS NOT NULL AND o.state = N'running'
) AS c
ORDER BY c.took DESC, c.chunk_index

-- name: lanes
SELECT /* dpone:lanes */ m.* FROM (
    SELECT TOP (?) l.*, COUNT(*) OVER () AS total FROM (
        SELECT worker_run_id AS run_id, worker_lane AS lane, MIN(worker_host) AS host,
               SUM(CASE WHEN state = N'committed' THEN 1 ELSE 0 END) AS chunks,
               CAST(COALESCE(SUM(CASE WHEN state = N'committed' THEN [rows] ELSE 0 END), 0) AS bigint) AS [rows],
               COALESCE(SUM(CASE WHEN state = N'committed' THEN seconds ELSE 0 END), 0) AS busy_seconds,
               MIN(started_at) AS started_at, MAX(COALESCE(finished_at, SYSUTCDATETIME())) AS ended_at
        FROM {schema}.__dpone__backfill_chunks
        WHERE run_key = ? AND state <> N'pending' AND worker_run_id IS NOT NULL
        GROUP BY worker_run_id, worker_lane
    ) AS l
    ORDER BY l.[rows] DESC, l.run_id, l.lane
) AS m ORDER BY m.started_at, m.run_id, m.lane

-- name: spans
SELECT /* dpone:lane_spans */ e.run_id, e.lane, e.shown AS state, MIN(e.chunk_index) AS first,
       MAX(e.chunk_index) AS last, COUNT(*) AS chunks,
       CAST(COALESCE(SUM(CASE WHEN e.state = N'committed' THEN e.[rows] ELSE 0 END), 0) AS bigint) AS [rows],
       MIN(e.started_at) AS started_at, MAX(e.ended_at) AS ended_at
FROM (
    SELECT t.*, DATEDIFF_BIG(millisecond, CAST(? AS datetime2(6)), t.ended_at) / CAST(? AS bigint) AS place FROM (
        SELECT c.worker_run_id AS run_id, c.worker_lane AS lane, c.state, c.chunk_index, c.[rows], c.started_at,
               CASE WHEN c.state = N'running' THEN SYSUTCDATETIME() ELSE c.finished_at END AS ended_at,
               CASE WHEN c.state = N'lease_expired' THEN N'running' ELSE c.state END AS shown
        FROM {schema}.__dpone__backfill_chunks AS c
        JOIN (
            SELECT TOP (?) l.run_id, l.lane FROM (
                SELECT worker_run_id AS run_id, worker_lane AS lane,
                       CAST(COALESCE(SUM(CASE WHEN state = N'committed' THEN [rows] ELSE 0 END), 0) AS bigint) AS [rows]
                FROM {schema}.__dpone__backfill_chunks
                WHERE run_key = ? AND state <> N'pending' AND worker_run_id IS NOT NULL
                GROUP BY worker_run_id, worker_lane
            ) AS l
            ORDER BY l.[rows] DESC, l.run_id, l.lane
        ) AS m ON m.run_id = c.worker_run_id AND m.lane = c.worker_lane
        WHERE c.run_key = ? AND c.state <> N'pending'
    ) AS t
    WHERE t.started_at IS NOT NULL AND t.ended_at IS NOT NULL
) AS e
GROUP BY e.run_id, e.lane, e.shown, e.place
ORDER BY MIN(e.started_at), e.run_id, e.lane

-- name: committed_rows
SELECT /* dpone:committed_rows */ c.place, COUNT(*) AS chunks,
       CAST(COALESCE(SUM(c.[rows]), 0) AS bigint) AS [rows], COALESCE(SUM(c.seconds), 0) AS seconds
FROM (
    SELECT DATEDIFF_BIG(millisecond, CAST(? AS datetime2(6)), finished_at) / CAST(? AS bigint) AS place, [rows], seconds
    FROM {schema}.__dpone__backfill_chunks
    WHERE run_key = ? AND state = N'committed' AND finished_at IS NOT NULL
) AS c
GROUP BY c.place ORDER BY c.place

-- name: spread
-- A chunk whose place in the order crosses one of the equal steps is a sample; of few chunks each is one.
SELECT /* dpone:spread */ o.place, o.value, o.number AS [count], o.total FROM (
    SELECT CAST({measure} AS float) AS value, ROW_NUMBER() OVER (ORDER BY {measure}, chunk_index) AS place,
           COUNT_BIG(*) OVER () AS number, SUM(CAST({measure} AS float)) OVER () AS total
    FROM {schema}.__dpone__backfill_chunks WHERE run_key = ? AND state = N'committed' AND {measure} IS NOT NULL
) AS o
WHERE o.place = 1 OR o.place * CAST(? AS bigint) / o.number <> (o.place - 1) * CAST(? AS bigint) / o.number
ORDER BY o.place

-- name: failures
SELECT /* dpone:failure_groups */ g.code, g.chunks, g.first, c.error
FROM (
    SELECT TOP (?) f.code, COUNT(*) AS chunks, MIN(f.chunk_index) AS first
    FROM (
        SELECT COALESCE(error_code, N'') AS code, chunk_index
        FROM {schema}.__dpone__backfill_chunks WHERE run_key = ? AND state = N'failed'
    ) AS f
    GROUP BY f.code ORDER BY COUNT(*) DESC, MIN(f.chunk_index)
) AS g
JOIN {schema}.__dpone__backfill_chunks AS c ON c.run_key = ? AND c.chunk_index = g.first
ORDER BY g.chunks DESC, g.first

-- name: receipt_sums
SELECT /* dpone:receipt_sums */ COUNT_BIG(*) AS receipts, COALESCE(SUM([rows]), 0) AS [rows],
       COALESCE(SUM(bytes), 0) AS bytes, MIN(committed_at) AS first_at, MAX(committed_at) AS last_at
FROM {schema}.__dpone__chunk_receipts WITH (READCOMMITTEDLOCK) WHERE run_key = ?

-- name: nulled
SELECT /* dpone:nulled_values */ n.[key] AS name, SUM(CAST(n.value AS bigint)) AS number
FROM {schema}.__dpone__chunk_receipts AS r CROSS APPLY OPENJSON(r.nulled) AS n
WHERE r.run_key = ? AND r.nulled <> N'{}'
GROUP BY n.[key] ORDER BY n.[key]

-- name: campaign_steps
SELECT /* dpone:campaign_steps */ TOP (?) l.run_id, s.step, s.status, s.seconds, s.recorded_at, s.facts,
       COUNT(*) OVER () AS total
FROM {schema}.__dpone__load_steps AS s JOIN {schema}.__dpone__loads AS l ON l.load_id = s.load_id
WHERE l.dataset = ? AND l.kind = N'campaign' AND s.recorded_at >= CAST(? AS datetime2(6)) AND NOT EXISTS (
    SELECT 1 FROM {schema}.__dpone__backfill_campaigns AS later
    WHERE later.dataset = l.dataset AND later.created_at > CAST(? AS datetime2(6)) AND s.recorded_at >= later.created_at
)
ORDER BY s.step_id DESC

-- name: increments
SELECT /* dpone:increments */ TOP (?) l.run_id, s.step, s.status, s.seconds, s.recorded_at, s.facts,
       COUNT(*) OVER () AS total
FROM {schema}.__dpone__load_steps AS s JOIN {schema}.__dpone__loads AS l ON l.load_id = s.load_id
WHERE s.step = N'increment' AND s.status = N'succeeded' AND JSON_VALUE(s.facts, '$.generation') = ?
ORDER BY s.step_id DESC

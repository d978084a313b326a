-- The course of a campaign. Every statement aggregates; none returns a row a chunk, but the few that are asked for.

-- name: course
SELECT /* dpone:course */ min(started_at) AS started_at,
       CASE WHEN bool_or(state = 'running') THEN clock_timestamp() ELSE max(finished_at) END AS ended_at,
       clock_timestamp() AS now
FROM {schema}.__dpone__backfill_chunks WHERE run_key = %(run_key)s AND state <> 'pending'

-- name: groups
SELECT /* dpone:chunk_groups */ min(chunk_index) AS first, max(chunk_index) AS last,
    count(*) FILTER (WHERE state = 'pending') AS pending,
    count(*) FILTER (WHERE state = 'running' AND lease_expires_at > statement_timestamp()) AS running,
    count(*) FILTER (WHERE state = 'committed') AS committed,
    count(*) FILTER (WHERE state = 'failed') AS failed,
    count(*) FILTER (WHERE state = 'lease_expired' OR state = 'running' AND lease_expires_at <= statement_timestamp())
        AS lease_expired,
    coalesce(sum(rows) FILTER (WHERE state = 'committed'), 0)::bigint AS rows,
    coalesce(sum(seconds) FILTER (WHERE state = 'committed'), 0) AS seconds,
    coalesce(max(seconds) FILTER (WHERE state = 'committed'), 0) AS longest_seconds
FROM {schema}.__dpone__backfill_chunks WHERE run_key = %(run_key)s
GROUP BY chunk_index / %(size)s::integer ORDER BY 1

-- name: slowest
-- The longest chunks are in the blocks whose longest chunks are the longest; more blocks than chunks are never needed.
SELECT /* dpone:slowest_chunks */ *, lease_expires_at <= clock_timestamp() AS expired
FROM (
    SELECT c.*, c.seconds AS took FROM (
        SELECT block FROM {schema}.__dpone__chunk_tallies WHERE run_key = %(run_key)s AND committed > 0
        ORDER BY longest_seconds DESC, block LIMIT %(limit)s
    ) AS b
    CROSS JOIN LATERAL (
        SELECT * FROM {schema}.__dpone__backfill_chunks AS o
        WHERE o.run_key = %(run_key)s AND o.chunk_index >= b.block * %(size)s::integer
          AND o.chunk_index < (b.block + 1) * %(size)s::integer OFFSET 0
    ) AS c WHERE c.state = 'committed'
    UNION ALL
    SELECT o.*, extract(epoch FROM statement_timestamp() - o.started_at)
    FROM {schema}.__dpone__backfill_chunks AS o
    WHERE o.run_key = %(run_key)s AND o.state <> 'committed' AND o.started_at IS NOT NULL AND o.state = 'running'
) AS chunk
ORDER BY took DESC, chunk_index LIMIT %(limit)s

-- name: lanes
SELECT /* dpone:lanes */ * FROM (
    SELECT worker_run_id AS run_id, worker_lane AS lane, min(worker_host) AS host,
           count(*) FILTER (WHERE state = 'committed') AS chunks,
           coalesce(sum(rows) FILTER (WHERE state = 'committed'), 0)::bigint AS rows,
           coalesce(sum(seconds) FILTER (WHERE state = 'committed'), 0) AS busy_seconds,
           min(started_at) AS started_at, max(coalesce(finished_at, statement_timestamp())) AS ended_at,
           count(*) OVER () AS total
    FROM {schema}.__dpone__backfill_chunks
    WHERE run_key = %(run_key)s AND state <> 'pending' AND worker_run_id IS NOT NULL
    GROUP BY worker_run_id, worker_lane
    ORDER BY rows DESC, worker_run_id, worker_lane LIMIT %(limit)s
) AS most ORDER BY started_at, run_id, lane

-- name: spans
WITH most AS (
    SELECT worker_run_id, worker_lane
    FROM {schema}.__dpone__backfill_chunks
    WHERE run_key = %(run_key)s AND state <> 'pending' AND worker_run_id IS NOT NULL
    GROUP BY worker_run_id, worker_lane
    ORDER BY coalesce(sum(rows) FILTER (WHERE state = 'committed'), 0) DESC, worker_run_id, worker_lane
    LIMIT %(lanes)s
), ended AS (
    SELECT c.*, CASE WHEN c.state = 'running' THEN statement_timestamp() ELSE c.finished_at END AS ended_at,
           CASE WHEN c.state = 'lease_expired' THEN 'running' ELSE c.state END AS shown
    FROM {schema}.__dpone__backfill_chunks AS c
    JOIN most AS m ON m.worker_run_id = c.worker_run_id AND m.worker_lane = c.worker_lane
    WHERE c.run_key = %(run_key)s AND c.state <> 'pending'
)
SELECT /* dpone:lane_spans */ worker_run_id AS run_id, worker_lane AS lane, shown AS state, min(chunk_index) AS first,
       max(chunk_index) AS last, count(*) AS chunks,
       coalesce(sum(rows) FILTER (WHERE state = 'committed'), 0)::bigint AS rows,
       min(started_at) AS started_at, max(ended_at) AS ended_at
FROM ended WHERE started_at IS NOT NULL AND ended_at IS NOT NULL
GROUP BY worker_run_id, worker_lane, shown,
         floor(extract(epoch FROM ended_at - %(start)s::timestamptz) * 1000 / %(milliseconds)s)
ORDER BY 8, 1, 2

-- name: committed_rows
SELECT /* dpone:committed_rows */
    least(%(count)s - 1, greatest(0, floor(
        extract(epoch FROM finished_at - %(start)s::timestamptz) * 1000 / %(milliseconds)s)))::integer AS place,
    count(*) AS chunks, coalesce(sum(rows), 0)::bigint AS rows, coalesce(sum(seconds), 0) AS seconds
FROM {schema}.__dpone__backfill_chunks
WHERE run_key = %(run_key)s AND state = 'committed' AND finished_at IS NOT NULL
GROUP BY 1 ORDER BY 1

-- name: rows_spread
-- A chunk whose place in the order crosses one of the equal steps is a sample; of few chunks each is one.
SELECT /* dpone:rows_spread */ place, value, count, total FROM (
    SELECT rows AS value, row_number() OVER (ORDER BY rows, chunk_index) AS place, count(*) OVER () AS count,
           sum(rows) OVER () AS total
    FROM {schema}.__dpone__backfill_chunks WHERE run_key = %(run_key)s AND state = 'committed'
) AS ordered
WHERE place = 1 OR place * %(samples)s / count <> (place - 1) * %(samples)s / count
ORDER BY place

-- name: seconds_spread
SELECT /* dpone:seconds_spread */ place, value, count, total FROM (
    SELECT seconds AS value, row_number() OVER (ORDER BY seconds, chunk_index) AS place, count(*) OVER () AS count,
           sum(seconds) OVER () AS total
    FROM {schema}.__dpone__backfill_chunks
    WHERE run_key = %(run_key)s AND state = 'committed' AND seconds IS NOT NULL
) AS ordered
WHERE place = 1 OR place * %(samples)s / count <> (place - 1) * %(samples)s / count
ORDER BY place

-- name: failures
SELECT /* dpone:failure_groups */ g.code, g.chunks, g.first, c.error
FROM (
    SELECT coalesce(error_code, '') AS code, count(*) AS chunks, min(chunk_index) AS first
    FROM {schema}.__dpone__backfill_chunks WHERE run_key = %(run_key)s AND state = 'failed'
    GROUP BY 1 ORDER BY 2 DESC, 3 LIMIT %(limit)s
) AS g
JOIN {schema}.__dpone__backfill_chunks AS c ON c.run_key = %(run_key)s AND c.chunk_index = g.first
ORDER BY g.chunks DESC, g.first

-- name: receipt_sums
SELECT /* dpone:receipt_sums */ count(*) AS receipts, coalesce(sum(rows), 0)::bigint AS rows,
       coalesce(sum(bytes), 0)::bigint AS bytes, min(committed_at) AS first_at, max(committed_at) AS last_at
FROM {schema}.__dpone__chunk_receipts WHERE run_key = %(run_key)s

-- name: nulled
SELECT /* dpone:nulled_values */ n.key, sum(n.value::bigint)::bigint AS number
FROM {schema}.__dpone__chunk_receipts AS r CROSS JOIN LATERAL jsonb_each_text(r.nulled) AS n
WHERE r.run_key = %(run_key)s AND r.nulled <> '{{}}'
GROUP BY n.key ORDER BY n.key

-- name: campaign_steps
SELECT /* dpone:campaign_steps */ l.run_id, s.step, s.status, s.seconds, s.recorded_at, s.facts,
       count(*) OVER () AS total
FROM {schema}.__dpone__load_steps AS s JOIN {schema}.__dpone__loads AS l ON l.load_id = s.load_id
WHERE l.dataset = %(dataset)s AND l.kind = 'campaign' AND s.recorded_at >= %(since)s AND NOT EXISTS (
    SELECT FROM {schema}.__dpone__backfill_campaigns AS later
    WHERE later.dataset = %(dataset)s AND later.created_at > %(since)s AND s.recorded_at >= later.created_at
)
ORDER BY s.step_id DESC LIMIT %(limit)s

-- name: increments
SELECT /* dpone:increments */ l.run_id, s.step, s.status, s.seconds, s.recorded_at, s.facts, count(*) OVER () AS total
FROM {schema}.__dpone__load_steps AS s JOIN {schema}.__dpone__loads AS l ON l.load_id = s.load_id
WHERE s.step = 'increment' AND s.status = 'succeeded' AND s.facts ->> 'generation' = %(generation)s
ORDER BY s.step_id DESC LIMIT %(limit)s

"""What the page says around its numbers."""

from __future__ import annotations

TITLE = """# Benchmarks

`make bench` lets every contender run in turn, within each repeat, on the same servers and the same rows. This page is
made from its results by `python -m benchmarks.page`; nobody has edited a number."""

REPEAT = """    make bench                                     # the cases below, five times: some hours on two cores
    make bench CASES='pg-*-1m-*' CONTENDERS=wire,ours REPEATS=3 BUDGET=60        # some of them, for an hour at most
    make bench CASES=pg-wide-uuid-5m-128c-4l       # any case by its name, with everybody who can run there
    make bench CASES='grid:mssql-narrow-*'         # every combination of width, key, rows, chunks and lanes

A bench that was interrupted, or whose `BUDGET` of minutes is spent, goes on where it stopped: no run is made again
for the same commit, case, contender and repeat (`RESUME=0` begins anew). A SQL Server takes part where
`DPONE_TEST_MSSQL_URL` names one on which databases may be made. Results are in `.dpone/bench/results.jsonl`, one line
a run. Each bench writes this page anew from what that file has of the commit, so one of a few cases leaves the rest
unmeasured: `git checkout docs/benchmarks.md` brings the published page back.

A case's name is route, table, rows, chunks and lanes. `narrow` has 6 columns, `wide` 24, `mb` a text of 1 MB in each
row, and `sparse` has all rows in the first chunk, so that the others are empty. Before each run the target's database
is made anew, with an empty live table, and the servers write a checkpoint."""

GOALS = """Values are medians, with the lowest and the highest of the repeats. Ratios are taken within each repeat, so
that a drift of the machine hits both sides. Where a goal leaves room, it is read strictly: `wire` is without its
index, and both measures have a line of their own."""
GOAL_COLUMNS = ("goal", "bound", "measured", "reached", "from")

CONTENDERS = """* `ours`: `dpone backfill run MANIFEST --execute`, a `shadow_swap` campaign: Dagster's run,
  validation, unique index, swap, handoff.
* `wire`, to PostgreSQL: `psql -c 'COPY (SELECT …) TO STDOUT (FORMAT binary)' | psql -c 'COPY … FROM STDIN (FORMAT
  binary)'`, one pair a chunk, with the campaign's ranges and as many pairs at once as it has lanes, into a table
  without an index. To SQL Server: `benchmarks/wire_mssql.py`, ADBC → bulk copy → stage → INSERT … SELECT, as many
  processes as lanes, each with connections and a stage that it keeps. The key is made afterwards and timed by itself:
  "with index" is what compares with a campaign's end to end.
* `merge`: our own `publication.mode: direct` with `inner_mode: incremental_merge`, by the same command.
* `dlt`, to PostgreSQL: the fastest of five ways that were tried: `sql_database` with the backend `connectorx`,
  `replace`, Parquet loaded by ADBC, files of 250,000 rows, as many normalize and load workers as lanes. In an
  environment of its own. It reads the table by one query into memory, has no chunks to resume from, and makes no key.
* `dlt-default`: the same without any setting: backend `sqlalchemy`, `INSERT` statements.

"End to end" is from the start of the command's process to its exit. "Load" is from the first claim to the last commit
as the ledger has them; of the others from their first read to the end of their last write. Bytes are the source
table's as PostgreSQL stores it, which compresses long texts. "Client CPU" and memory are of the command's processes,
servers not among them, looked at five times a second. "Lanes" are the processes that move rows, and memory of "a
lane" is the largest one's peak; "all" is the highest sum at one look, with a shared page counted once among all
processes of the machine, so it may be less than that of one lane which shares most of its pages or lives for less than
a look. "Log" is the WAL of the whole PostgreSQL server."""
CASE_COLUMNS = (
    "contender",
    "runs",
    "end to end",
    "load",
    "rows/s end to end",
    "rows/s load",
    "MB/s load",
    "speed end to end, ours = 1",
    "with index",
    "client CPU",
    "lanes' CPU",
    "a lane, MB",
    "all, MB",
    "log, MB",
)

CHUNKS = """Milliseconds from claim to commit, median of the repeats. Tenths are in order of claim, each by its median
chunk. "Claim to claim" is from one claim of a lane to its next, with the event in Dagster and everything else around
a chunk; "lanes apart" is from the first lane's first claim to the last lane's."""
CHUNK_COLUMNS = ("case", "contender", "median", "first tenth", "last tenth", "longest", "claim to claim", "lanes apart")

PHASES = """Median seconds from each mark of a run to the next; they add up to the end to end time. A step of the run
is a process of its own: "its process" is from the end of what was before until the step's own code begins."""

COMMAND_COLUMNS = ("command", "median of 10 calls")

NOT_MEASURED = """## What this does not say

* Source, target and clients share one machine and its disk: more lanes than cores gain nothing here, and the network
  is free.
* A server that only speaks like SQL Server proves nothing about SQL Server's speed; its line above says which one it
  was.
* The source is in the page cache, so no contender waits for a disk to read.
* dlt has a destination for SQL Server, which was not tried."""

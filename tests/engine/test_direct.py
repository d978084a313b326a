"""A `direct` campaign through the use cases: its chunks replace exactly their slices of the live table.

With a SQL Server target: Verified on Babelfish 4.3. UNVERIFIED on SQL Server.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from dpone_dagster.campaign.errors import (
    BackupRefused,
    CampaignActive,
    CampaignCancelled,
    CancelRefused,
    CatalogRefused,
    ChunkFailed,
    HandoffMissing,
    KeyInvalid,
    RightsMissing,
    RollbackRefused,
    SourceIsTarget,
)
from dpone_dagster.campaign.ledger import Phase
from dpone_dagster.campaign.receipts import Approval
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.engine import complete as completing
from dpone_dagster.engine import lane as lanes
from dpone_dagster.engine.cancel import cancel
from dpone_dagster.engine.complete import complete
from dpone_dagster.engine.doctor import doctor
from dpone_dagster.engine.dropbackup import preview_drop
from dpone_dagster.engine.handoff import commit_handoff
from dpone_dagster.engine.increment import run_increment
from dpone_dagster.engine.inspect import status
from dpone_dagster.engine.prepare import prepare
from dpone_dagster.engine.publish import publish
from dpone_dagster.engine.rollback import preview_rollback, rollback
from dpone_dagster.engine.validate import validate
from tests.engine.campaign import Seen, lane, load
from tests.mssql_source import ROUTES
from tests.orders import Orders, make_orders

TWO_DAYS = {"column": "placed_at", "kind": "date", "from": "2024-03-30", "to": "2024-03-31", "step": "1d"}
Rows = list[tuple[Any, ...]]


def direct(
    orders: Orders, inner_mode: str, *, chunk: dict[str, Any] | None = None, number: int = 1, **more: Any
) -> Orders:
    """The same campaign, straight into the live table."""
    orders.manifest["source"].pop("options", None)
    orders.backfill.pop("publication", None)
    orders.backfill.update(
        inner_mode=inner_mode, backfill_id=f"direct_{number}", chunk=dict(chunk or orders.chunks), **more
    )
    return orders


def done(orders: Orders, run_id: str = "run-1") -> Seen:
    seen = load(orders, run_id=run_id)
    evidence = complete(orders.spec, orders.connector, run_id)
    assert evidence is not None
    assert evidence.passed
    return seen


def failed(orders: Orders) -> str:
    """What stopped the campaign's one lane; the chunk kept nothing."""
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    seen = Seen()
    lane(orders, seen)
    (error,) = seen.errors.values()
    return str(error)


def advised_on(orders: Orders) -> dict[str, str]:
    """What doctor advises on each failed chunk, as status does."""
    found = {f.path: f.advice for f in doctor(orders.spec, orders.connector).findings if f.path.startswith("chunk ")}
    seen = status(orders.spec, orders.connector).as_dict()["failed_chunks"]
    assert found == {f"chunk {chunk['chunk']}": chunk["next_step"] for chunk in seen}  # type: ignore[attr-defined]
    return found


def together(*parts: Sequence[tuple[Any, ...]]) -> Rows:
    return sorted((row for part in parts for row in part), key=lambda row: str(row[0]))


def within(rows: Sequence[tuple[Any, ...]], first: int, last: int) -> Rows:
    """Rows of these days of March 2024 (April 1 is its 32nd), in the order of their ids."""
    days = {(3, day) if day < 32 else (4, day - 31) for day in range(first, last + 1)}
    return together([row for row in rows if (row[2].month, row[2].day) in days])


@pytest.fixture
def small(new_database: Callable[[str], str]) -> Orders:
    """As `either`, on PostgreSQL alone; what an adapter does by itself is in the contract suite."""
    return make_orders(new_database("oltp"), new_database("dwh"), rows=400, chunks=4)


def test_an_append_adds_the_rows_to_those_that_are_there(route: Orders) -> None:
    old = route.target_rows()
    assert sorted(done(direct(route, "incremental_append")).done) == [0, 1, 2, 3]
    assert together(route.target_rows()) == together(old, route.source_rows())
    shown = status(route.spec, route.connector)
    assert shown.phase is Phase.PUBLISHED
    assert shown.recommended_action == "nothing to do: the campaign is finished"
    facts: Any = shown.as_dict()["backfill"]
    assert (facts["verification"]["status"], facts["verification"]["chunks_with_other_row_counts"]) == ("passed", 0)
    assert (facts["verification"]["compared"], facts["verification"]["digested_chunks"]) == ("row_count", None)
    assert facts["publication"] | {"mode": "direct", "shadow": None, "backup": None} == facts["publication"]
    assert facts["publication"]["actual_rows"] == 400
    assert doctor(route.spec, route.connector).findings == ()


def test_a_chunk_whose_digest_differs_is_a_warning_and_stops_nothing(route: Orders) -> None:
    load(direct(route, "replace", verification="digest"))
    said = status(route.spec, route.connector).verification_dict()
    assert (said["status"], said["compared"], said["source_digest"]) == ("pending", "digest", None)
    receipts = "system.__dpone__chunk_receipts"
    ((stored,),) = route.on_target(f"SELECT diagnostics FROM {receipts} WHERE chunk_index = 2")
    notes = stored if isinstance(stored, dict) else json.loads(stored)
    # As the writer notes it where the stage had other rows than the source; the contract suite has that.
    told = json.dumps({**notes, "target_digest": str(int(notes["digest"]) + 5)})
    route.on_target(f"UPDATE {receipts} SET diagnostics = '{told}' WHERE chunk_index = 2")
    evidence = complete(route.spec, route.connector, "run-1")
    assert evidence is not None
    assert evidence.passed
    seen = status(route.spec, route.connector)
    said = seen.verification_dict()
    assert (seen.phase, said["status"]) == (Phase.PUBLISHED, "warning")
    assert (said["digested_chunks"], said["chunks_with_other_digests"]) == (4, 1)
    assert said["first_chunks_with_other_digests"] == [2]
    assert int(str(said["target_digest"])) == int(str(said["source_digest"])) + 5


def test_a_replay_nsmall_appends_twice_nor_reads_the_source(small: Orders) -> None:
    done(direct(small, "incremental_append"))
    rows = small.target_rows()
    assert load(small, run_id="run-2") == Seen()
    # As after a death between COMMIT and the ledger's move.
    small.on_target("UPDATE system.__dpone__backfill_campaigns SET phase = 'loading'")
    small.on_target("UPDATE system.__dpone__backfill_chunks SET state = 'pending' WHERE chunk_index = 3")
    small.on_source("ALTER TABLE public.orders RENAME TO elsewhere")
    seen = Seen()
    lane(small, seen, run_id="run-3")
    assert (seen.done, seen.replayed) == ([], [3])
    assert small.target_rows() == rows


def test_chunks_that_are_replaced_leave_the_source_s_rows_however_often(small: Orders) -> None:
    for number in (1, 2):
        done(direct(small, "replace", number=number))
        assert small.target_rows() == small.source_rows()
        small.on_source("DELETE FROM public.orders WHERE paid")
        small.on_source("UPDATE public.orders SET note = 'later'")
    done(direct(small, "replace", number=3))
    assert small.target_rows() == small.source_rows()


def test_a_window_replaces_its_days_and_nothing_besides(route: Orders) -> None:
    route.spread()
    done(direct(route, "replace"))
    before = route.source_rows()
    route.on_source("UPDATE public.orders SET note = 'corrected' WHERE amount > 1")
    route.on_source("DELETE FROM public.orders WHERE amount < 2 AND placed_at >= '2024-03-31'")
    done(direct(route, "partition_replace", chunk=TWO_DAYS, number=2))
    after, rows = route.source_rows(), route.target_rows()
    assert within(rows, 30, 31) == within(after, 30, 31) != within(before, 30, 31)
    assert [within(rows, day, day) for day in (29, 32)] == [within(before, day, day) for day in (29, 32)]


def test_a_merge_updates_what_has_a_key_and_adds_the_rest(route: Orders) -> None:
    done(direct(route, "incremental_append"))
    loaded = route.source_rows()
    old = [row for row in route.target_rows() if row not in loaded]
    route.on_source("UPDATE public.orders SET note = 'changed', amount = NULL WHERE amount < 2")
    route.add_orders(50, "2024-03-30")
    done(direct(route, "incremental_merge", number=2))
    assert together(route.target_rows()) == together(old, route.source_rows())


def test_a_refresh_replaces_everything_in_one_chunk(route: Orders) -> None:
    done(direct(route, "full_refresh", chunk=route.one_chunk))
    assert route.target_rows() == route.source_rows()


def test_a_refresh_from_an_empty_source_is_refused_unless_it_is_meant(small: Orders) -> None:
    old = small.target_rows()
    small.on_source("DELETE FROM public.orders")
    direct(small, "full_refresh", chunk=small.one_chunk)
    told = failed(small)
    assert "the source has no row for the whole campaign, and landing.orders has" in told
    assert "`allow_empty: true`" in told
    assert advised_on(small) == {"chunk 0": told.partition("next: ")[2]}
    assert small.target_rows() == old
    done(direct(small, "full_refresh", chunk=small.one_chunk, number=2, allow_empty=True))
    assert small.target_rows() == []


@pytest.mark.parametrize("route", [*ROUTES[:2], "mssql to postgres"], indirect=True)
@pytest.mark.parametrize("days", [None, TWO_DAYS])
def test_slices_are_not_emptied_where_the_source_has_none_of_the_campaign_s_rows(
    route: Orders, days: dict[str, Any] | None
) -> None:
    route.spread()
    route.on_target("DELETE FROM landing.orders")
    done(direct(route, "replace"))
    old = route.target_rows()
    route.on_source("DELETE FROM public.orders WHERE placed_at >= '2024-03-30' AND placed_at < '2024-04-01'")
    if days is None:  # every slice is one of the table's
        route.on_source("TRUNCATE TABLE public.orders")
    direct(route, "replace", chunk=days, number=2, on_chunk_failure="continue")
    with pytest.raises(ChunkFailed, match="the source has no row for the whole campaign"):
        load(route)
    assert route.target_rows() == old
    # It was an accident: the rows come back, all but those of one slice, and the same campaign goes on.
    route.add_orders(2, "2024-03-30")
    load(route, intent="resume", run_id="run-2")
    assert complete(route.spec, route.connector, "run-2") is not None
    gone = together(*(within(old, day, day) for day in (29, 32))) if days else []
    assert route.target_rows() == together(
        gone, route.source_rows() if days is None else within(route.source_rows(), 30, 31)
    )
    # And here it is meant.
    route.on_source("TRUNCATE TABLE public.orders")
    done(direct(route, "replace", chunk=days, number=3, allow_empty=True))
    assert route.target_rows() == gone


def test_a_row_whose_key_is_there_already_stops_an_append(small: Orders) -> None:
    done(direct(small, "incremental_append"))
    rows = small.target_rows()
    told = failed(direct(small, "incremental_append", number=2))
    assert told.startswith("UNIQUE_CONFLICT: a row of chunk 0 breaks a unique index of landing.orders")
    assert not any(str(row[0]) in told for row in rows)
    assert small.target_rows() == rows
    advice = told.partition("next: ")[2]
    assert all(word in advice for word in ("`inner_mode: replace`", "`incremental_merge`", "delete those rows"))
    assert advised_on(small) == {"chunk 0": advice}
    with pytest.raises(ChunkFailed):
        load(small, intent="resume", run_id="run-2")
    # What failed is mended, and the same campaign goes on.
    small.on_target("DELETE FROM landing.orders")
    load(small, intent="resume", run_id="run-3")
    assert complete(small.spec, small.connector, "run-3") is not None
    assert small.target_rows() == small.source_rows()


def test_cancel_and_resume(small: Orders) -> None:
    direct(small, "replace")
    prepare(small.spec, small.connector, intent="run", run_id="run-1")
    lane(small, Seen(), selection=ChunkSelection(((0, 2),)))
    assert complete(small.spec, small.connector, "run-1") is None
    cancel(small.spec, small.connector, "enough", "ada")
    with pytest.raises(CampaignCancelled):
        load(small, run_id="run-2")
    assert sorted(load(small, intent="resume", run_id="run-3").done) == [2, 3]
    assert complete(small.spec, small.connector, "run-3") is not None
    assert small.target_rows() == small.source_rows()
    with pytest.raises(CancelRefused):
        cancel(small.spec, small.connector, "too late", "ada")


def test_a_cancel_while_it_is_completed_is_named(small: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    load(direct(small, "replace"))
    parity = completing._parity

    def cancelled_meanwhile(*values: Any) -> Any:
        cancel(small.spec, small.connector, "now", "ada")
        return parity(*values)

    monkeypatch.setattr(completing, "_parity", cancelled_meanwhile)
    with pytest.raises(CampaignCancelled, match="by ada: now"):
        complete(small.spec, small.connector, "run-1")
    assert status(small.spec, small.connector).phase is Phase.CANCELLED


def test_there_is_nothing_to_roll_back_and_no_backup_to_drop_and_no_increment_to_run(small: Orders) -> None:
    done(direct(small, "replace"))
    with pytest.raises(HandoffMissing, match="hands nothing over") as refused:
        run_increment(small.spec, small.connector, "inc-1")
    assert "shadow_swap" in refused.value.advice
    with pytest.raises(RollbackRefused, match="no table from before"):
        preview_rollback(small.spec, small.connector)
    with pytest.raises(RollbackRefused, match="no table from before"):
        rollback(small.spec, small.connector, Approval("ada", "why not"))
    with pytest.raises(BackupRefused, match="so there is none"):
        preview_drop(small.spec, small.connector)
    assert small.target_rows() == small.source_rows()


def test_a_live_table_that_was_altered_or_replaced_stops_the_chunk(small: Orders) -> None:
    direct(small, "replace")
    prepare(small.spec, small.connector, intent="run", run_id="run-1")
    old = small.target_rows()
    small.on_target("ALTER TABLE landing.orders ADD later int NULL")
    seen = Seen()
    lane(small, seen)
    assert "landing.orders was altered since the campaign was prepared" in str(seen.errors[0])
    small.on_target("ALTER TABLE landing.orders DROP COLUMN later")
    assert small.target_rows() == old
    small.on_target("CREATE INDEX one_more ON landing.orders (paid)")  # which decides nothing about rows
    done(small, "run-2")
    assert small.target_rows() == small.source_rows()


def test_a_publication_between_two_chunks_is_seen(orders: Orders) -> None:
    direct(orders, "replace")
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    orders.on_target("ALTER TABLE landing.orders RENAME TO before")
    orders.on_target("CREATE TABLE landing.orders (LIKE landing.before INCLUDING ALL)")
    seen = Seen()
    lane(orders, seen)
    assert "landing.orders was replaced since the campaign was prepared" in str(seen.errors[0])


def test_what_would_change_rows_on_their_way_is_refused_at_prepare(orders: Orders) -> None:
    orders.on_target("CREATE FUNCTION landing.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
    orders.on_target("CREATE TRIGGER drops BEFORE INSERT ON landing.orders FOR EACH ROW EXECUTE FUNCTION landing.f()")
    orders.on_target("CREATE VIEW landing.seen AS SELECT * FROM landing.orders")  # a swap's business only
    orders.on_target("CREATE TABLE landing.lines (id uuid REFERENCES landing.orders ON DELETE CASCADE)")
    direct(orders, "replace")
    with pytest.raises(CatalogRefused, match="cannot be written to exactly") as refused:
        prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    assert [f.path.partition(" ")[0] for f in refused.value.findings] == ["lines_id_fkey", "drops"]
    assert [f.path.partition(" ")[0] for f in doctor(orders.spec, orders.connector).findings][:2] == [
        "lines_id_fkey",
        "drops",
    ]


def test_a_merge_needs_a_unique_index_and_a_replacement_its_chunk_column(either: Orders) -> None:
    either.on_target(
        "DROP INDEX orders_id ON landing.orders"
        if "mssql" in either.manifest["sink"]["type"]
        else "ALTER TABLE landing.orders DROP CONSTRAINT orders_pkey"
    )
    with pytest.raises(KeyInvalid) as refused:
        prepare(direct(either, "incremental_merge").spec, either.connector, intent="run", run_id="run-1")
    assert [f.problem for f in refused.value.findings] == ["no unique index holds (id) apart"]
    either.manifest["source"]["columns"] = ["id", "amount", "paid"]
    either.manifest["sink"]["strategy"].pop("unique_key")
    with pytest.raises(KeyInvalid, match="is not loaded into"):
        prepare(direct(either, "replace", chunk=TWO_DAYS).spec, either.connector, intent="run", run_id="run-1")


def test_an_increment_and_a_chunk_never_write_at_once(either: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    load(either)
    assert validate(either.spec, either.connector, "run-1").passed
    publish(either.spec, either.connector, "run-1")
    commit_handoff(either.spec, either.connector, "run-1")
    published = either.spec
    either.on_source("UPDATE public.orders SET note = 'newer'")
    direct(either, "replace")
    prepare(either.spec, either.connector, intent="run", run_id="run-2")
    monkeypatch.setattr(lanes, "_JOIN_SECONDS", 0.2)
    with closing(either.connector.target("as an increment")) as other, other.transaction():
        other.fence.lock_target(either.spec.target, 1)
        with pytest.raises(CampaignActive, match="orders is held by"):
            lane(either, Seen())
    with closing(either.connector.target("as a lane")) as other:
        assert other.fence.lock_campaign(either.spec.run_key, "shared", 1)
        assert other.fence.share_target(either.spec.target, 1)
        with pytest.raises(CampaignActive):
            run_increment(published, either.connector, "run-3")
    done(either, "run-4")
    # The history of publications is what it was, and increments go on from their checkpoint.
    assert run_increment(published, either.connector, "run-5").rows_read == 400
    assert either.target_rows() == either.source_rows()


def test_windows_that_are_apart_are_loaded_side_by_side_and_no_others(small: Orders) -> None:
    small.spread()
    one = direct(small, "replace", chunk={**TWO_DAYS, "from": "2024-03-28", "to": "2024-03-29"}).spec
    prepare(one, small.connector, intent="run", run_id="run-1")
    prepare(direct(small, "replace", chunk={**TWO_DAYS, "from": "2024-03-29"}, number=2).spec, small.connector,
            intent="run", run_id="run-2")  # fmt: skip
    with closing(small.connector.target("a lane of the first")) as other:
        assert other.fence.lock_campaign(one.run_key, "shared", 1)
        with pytest.raises(CampaignActive, match="is at work"):
            lane(small, Seen())  # it overlaps, and nobody was at work when it was prepared
        with pytest.raises(CampaignActive, match="is at work"):
            prepare(direct(small, "replace", number=3).spec, small.connector, intent="run", run_id="run-3")
        done(direct(small, "replace", chunk=TWO_DAYS, number=4))
    assert within(small.target_rows(), 30, 31) == within(small.source_rows(), 30, 31)


@pytest.mark.parametrize("route", ["mssql to mssql"], indirect=True)
def test_one_table_of_sql_server_under_two_names_of_a_connection_is_refused(route: Orders) -> None:
    direct(route, "incremental_append", chunk=TWO_DAYS)
    assert route.manifest["source"]["connection_ref"] != route.manifest["sink"]["connection_ref"]
    route.manifest["source"]["table"] = {"schema": "landing", "name": "orders"}
    rows = route.target_rows()
    with pytest.raises(SourceIsTarget):
        prepare(route.spec, route.connector, intent="run", run_id="run-1")
    assert route.target_rows() == rows


def test_a_date_is_not_cut_at_a_time_of_day(small: Orders) -> None:
    small.on_source("ALTER TABLE public.orders ADD day date NOT NULL DEFAULT now()")
    small.on_target("ALTER TABLE landing.orders ADD day date NOT NULL DEFAULT now()")
    window = {"column": "day", "from": "2024-03-30T00:00-04:00", "to": "2024-03-31T00:00-04:00", "step": "1d"}
    with pytest.raises(KeyInvalid, match="not midnight in UTC"):
        prepare(direct(small, "replace", chunk=window).spec, small.connector, intent="run", run_id="run-1")
    done(direct(small, "replace", chunk={**window, "from": "2024-03-30", "to": "2024-03-31"}))


def test_a_login_that_owns_nothing_may_write_if_it_has_the_rights_to(small: Orders) -> None:
    small.on_target("CREATE ROLE dpone_writer LOGIN")
    small.on_target("CREATE SCHEMA system AUTHORIZATION dpone_writer")
    poor = replace(
        direct(small, "incremental_merge"), target_url=small.target_url.replace("postgres@", "dpone_writer@")
    )
    try:
        with pytest.raises(RightsMissing) as refused:
            prepare(poor.spec, poor.connector, intent="run", run_id="run-1")
        assert [(f.path, f.problem.removeprefix("the login lacks ")) for f in refused.value.findings] == [
            ("schema landing", "USAGE"),
            *(("table landing.orders", right) for right in ("DELETE", "INSERT", "SELECT", "UPDATE")),
        ]
        small.on_target("GRANT USAGE ON SCHEMA landing TO dpone_writer")
        small.on_target("GRANT SELECT, INSERT, UPDATE, DELETE ON landing.orders TO dpone_writer")
        done(poor)
        done(direct(poor, "replace", number=2), run_id="run-2")
        assert small.target_rows() == small.source_rows()
    finally:
        small.on_target("DROP OWNED BY dpone_writer")
        small.on_target("DROP ROLE dpone_writer")

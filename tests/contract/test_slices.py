"""What every adapter's chunks do to a live table: exactly their slice, with the receipt, in one transaction."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, get_args

import pytest

from dpone_dagster.campaign.contract import ColumnBinding, ColumnContract
from dpone_dagster.campaign.errors import (
    CatalogDrift,
    LeaseLost,
    TransientFailure,
    UniqueConflict,
    ValidationBlocked,
)
from dpone_dagster.campaign.ledger import Claim
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.plan import Chunk, ChunkKind, ChunkSpec, Plan
from dpone_dagster.campaign.receipts import ChunkReceipt
from dpone_dagster.campaign.slices import Action, LiveSlice
from dpone_dagster.ports.source import RowStream
from dpone_dagster.ports.tables import ChunkWrite
from tests.contract.conftest import Adapter, Parts
from tests.contract.samples import CONTRACT, RUN_KEY, TARGET, campaign, claim, start, worker

MOMENTS = TARGET.sibling("moments")
NOTHING_ELSE = ColumnContract((ColumnBinding("id", "id", "integer", "integer"),), ())
OLD = [(9, "before", None), (10, "first", "{}"), (14, "middle", None), (19, "last", None), (20, "after", None)]
SLICE = Chunk(1, "integer", "10", "19", True)


@dataclass
class Bench:
    """One session that holds the campaign, and writes one chunk after the other."""

    adapter: Adapter
    target: Parts
    index: int = 0

    def write(
        self, action: Action, rows: RowStream, *, chunk: Chunk = SLICE, column: str = "id", table: TableRef = TARGET
    ) -> ChunkReceipt:
        """Claim the next chunk of the campaign and write it."""
        return self.again(self.hold(), action, rows, chunk=chunk, column=column, table=table)

    def hold(self) -> Claim:
        """Claim the next chunk of the campaign."""
        self.index += 1
        return claim(self.target, self.index)

    def again(self, held: Claim, action: Action, rows: RowStream, **more: Any) -> ChunkReceipt:
        """Write a chunk that is claimed."""
        table, allow_empty = more.pop("table", TARGET), more.pop("allow_empty", False)
        live = LiveSlice(action, more.get("chunk", SLICE), more.get("column", "id"), allow_empty)
        handle = self.target.tables.loadable(table)
        assert handle is not None
        contract = more.get("contract", CONTRACT if table == TARGET else NOTHING_ELSE)
        write = ChunkWrite(table, handle.object_id, handle.digest, contract, "plan", "binding", live)
        if asked := more.get("source_has_rows"):
            write = replace(write, source_has_rows=asked)
        return self.target.tables.write_chunk(held, write, rows)

    def rows(self, *rows: tuple[int, str | None, str | None], said: int | None = None) -> RowStream:
        return self.adapter.stream(CONTRACT, rows, said=said)

    def receipts(self) -> int:
        return self.target.ledger.receipt_totals(campaign(20)).receipts


@pytest.fixture
def bench(adapter: Adapter, target: Parts) -> Bench:
    start(target, chunks=20)
    assert target.fence.lock_campaign(RUN_KEY, "shared", 1)
    return Bench(adapter, target)


def test_an_append_adds_rows_and_their_receipt(bench: Bench) -> None:
    bench.adapter.create_orders(OLD)
    receipt = bench.write("append", bench.rows((11, "naïve 😀", None), (12, None, "{}"), (13, "", None)))
    assert bench.adapter.orders() == sorted([*OLD, (11, "naïve 😀", None), (12, None, "{}"), (13, "", None)])
    assert (receipt.rows, receipt.diagnostics) == (3, {})
    assert bench.target.ledger.receipt(RUN_KEY, 1) == receipt


def test_a_replacement_leaves_the_neighbours_alone(bench: Bench) -> None:
    bench.adapter.create_orders(OLD)
    new: list[tuple[int, str | None, str | None]] = [(10, "new first", None), (15, "new", None)]
    assert bench.write("replace", bench.rows(*new)).rows == 2
    assert bench.adapter.orders() == [OLD[0], *new, OLD[4]]
    assert bench.write("replace", bench.rows(*new)).rows == 2  # again, as often as one likes
    assert bench.adapter.orders() == [OLD[0], *new, OLD[4]]


def test_a_slice_without_rows_is_emptied(bench: Bench) -> None:
    bench.adapter.create_orders(OLD)
    held = bench.hold()
    with pytest.raises(ValidationBlocked, match=r"no row for the whole campaign, and landing.orders has 3 for chunk 1"):
        bench.again(held, "replace", bench.rows())
    assert (bench.adapter.orders(), bench.receipts()) == (OLD, 0)
    assert bench.again(held, "replace", bench.rows(), source_has_rows=lambda: True).rows == 0
    assert bench.adapter.orders() == [OLD[0], OLD[4]]
    assert bench.receipts() == 1
    assert bench.write("replace", bench.rows()).rows == 0  # what was empty may stay so


def test_a_merge_updates_by_key_and_adds_the_rest(bench: Bench) -> None:
    bench.adapter.create_orders(OLD)
    receipt = bench.write("merge", bench.rows((14, "MIDDLE", None), (19, "last", None), (16, "new", "{}")))
    assert receipt.rows == 3
    assert bench.adapter.orders() == [*OLD[:2], (14, "MIDDLE", None), (16, "new", "{}"), *OLD[3:]]
    assert bench.write("merge", bench.rows()).rows == 0


def test_a_merge_that_breaks_another_unique_index_says_so(bench: Bench) -> None:
    bench.adapter.create_coded([(1, 10), (2, 20)])
    coded = TARGET.sibling("coded")
    columns = (ColumnBinding("id", "id", "integer", "integer"), ColumnBinding("code", "code", "integer", "integer"))
    contract = ColumnContract(columns, ("id",))
    rows = bench.adapter.stream(contract, [(1, 20)])
    with pytest.raises(UniqueConflict, match="chunk 1 breaks a unique index") as refused:
        bench.again(bench.hold(), "merge", rows, table=coded, contract=contract)
    assert "unique in the source" in str(refused.value)
    assert (bench.adapter.coded(), bench.receipts()) == ([(1, 10), (2, 20)], 0)


def test_a_merge_of_one_key_twice_is_refused(bench: Bench) -> None:
    bench.adapter.create_orders(OLD)
    with pytest.raises(ValidationBlocked, match="came more than once"):
        bench.write("merge", bench.rows((14, "a", None), (14, "b", None)))
    assert (bench.adapter.orders(), bench.receipts()) == (OLD, 0)


def test_a_merge_takes_no_other_row_for_its_own_whose_key_is_equal_by_collation(bench: Bench) -> None:
    # The source tells `Abc` and `abc` apart; updated, one would be lost and every count be right.
    bench.adapter.create_named([("Abc", "1 first")])
    columns = (ColumnBinding("name", "name", "text", "text"), ColumnBinding("note", "note", "text", "text"))
    contract, held = ColumnContract(columns, ("name",)), bench.hold()
    more: dict[str, Any] = {"table": TARGET.sibling("named"), "contract": contract}
    with pytest.raises(UniqueConflict, match="chunk 1 breaks a unique index") as refused:
        bench.again(held, "merge", bench.adapter.stream(contract, [("abc", "2 second")]), **more)
    assert "a binary collation" in str(refused.value)
    assert (bench.adapter.named(), bench.receipts()) == ([("Abc", "1 first")], 0)
    receipt = bench.again(
        held, "merge", bench.adapter.stream(contract, [("Abc", "1 changed"), ("Abd", "2 new")]), **more
    )
    assert (receipt.rows, receipt.diagnostics) == (2, {})
    assert bench.adapter.named() == [("Abc", "1 changed"), ("Abd", "2 new")]


def test_a_refresh_replaces_the_whole_table(bench: Bench) -> None:
    bench.adapter.create_orders(OLD)
    assert bench.write("refresh", bench.rows((1, "only", None))).rows == 1
    assert bench.adapter.orders() == [(1, "only", None)]


def test_a_refresh_without_rows_needs_somebody_s_word(bench: Bench) -> None:
    bench.adapter.create_orders(OLD)
    held = bench.hold()
    with pytest.raises(ValidationBlocked, match="the source has no row for the whole campaign, and landing"):
        bench.again(held, "refresh", bench.rows())
    assert (bench.adapter.orders(), bench.receipts()) == (OLD, 0)
    bench.again(held, "refresh", bench.rows(), allow_empty=True)
    assert bench.adapter.orders() == []
    assert bench.write("refresh", bench.rows()).rows == 0  # what was empty may stay so


class Broken:
    """A stream that breaks after its first batch."""

    def __init__(self, rows: RowStream) -> None:
        self._rows = rows
        self.wire = rows.wire
        self.rows = self.bytes = 0
        self.nulled: dict[str, int] = {}

    def __iter__(self) -> Iterator[Any]:
        yield next(iter(self._rows))
        raise ZeroDivisionError


def test_a_chunk_that_breaks_leaves_the_slice_as_it_was(bench: Bench) -> None:
    bench.adapter.create_orders(OLD)
    held = bench.hold()
    for action in get_args(Action):
        with pytest.raises(ZeroDivisionError):
            bench.again(held, action, Broken(bench.rows((11, "x" * 50, None), (12, None, None), (13, None, None))))
        assert (bench.adapter.orders(), bench.receipts()) == (OLD, 0), action
    bench.again(held, "replace", bench.rows((11, "x", None)))
    assert bench.adapter.orders() == [OLD[0], (11, "x", None), OLD[4]]


@pytest.mark.parametrize("action", ["append", "replace"])
def test_a_key_outside_the_slice_is_in_the_way(bench: Bench, action: Action) -> None:
    bench.adapter.create_orders(OLD)
    with pytest.raises(UniqueConflict, match="chunk 1 breaks a unique index") as refused:
        bench.write(action, bench.rows((20, "secret", None)))
    assert "20" not in str(refused.value).partition("next:")[0]
    assert (bench.adapter.orders(), bench.receipts()) == (OLD, 0)


def test_a_chunk_that_has_a_receipt_is_not_written_again(bench: Bench) -> None:
    bench.adapter.create_orders(OLD)
    held = bench.hold()
    bench.again(held, "replace", bench.rows((11, "once", None)))
    with pytest.raises(TransientFailure, match="receipt"):
        bench.again(held, "replace", bench.rows((12, "twice", None)))
    assert bench.adapter.orders() == [OLD[0], (11, "once", None), OLD[4]]


def test_another_number_of_rows_than_was_read_is_noted(bench: Bench) -> None:
    if bench.target.tables.marks_generations:
        pytest.skip(
            "rows in a SQL Server's stage are counted first, and a difference there is an error of the transfer"
        )
    bench.adapter.create_orders(OLD)
    receipt = bench.write("append", bench.rows((11, None, None), said=2))
    assert (receipt.rows, receipt.diagnostics) == (1, {"rows_read": 2})
    assert bench.target.ledger.receipt(RUN_KEY, 1) == receipt
    bench.write("append", bench.rows((12, None, None)))
    totals = bench.target.ledger.receipt_totals(campaign(20))
    assert (totals.receipts, totals.differing) == (2, 1)


def test_a_table_that_was_altered_takes_nothing(bench: Bench) -> None:
    bench.adapter.create_orders(OLD)
    before = bench.target.tables.loadable(TARGET)
    bench.adapter.add_mark("flag")
    assert before is not None
    write = ChunkWrite(
        TARGET, before.object_id, before.digest, CONTRACT, "plan", "binding", LiveSlice("replace", SLICE, "id")
    )
    with pytest.raises(CatalogDrift, match="altered"):
        bench.target.tables.write_chunk(bench.hold(), write, bench.rows((11, None, None)))
    assert bench.adapter.orders() == OLD


# Ten rows, each an hour and 30 minutes after the one before; the uuids in the order of their texts.
START = [(n, f"{n:01x}0000000-0000-4000-8000-{9 - n:012x}") for n in range(10)]
DAYS = {"lower": "2024-12-31", "upper": "2025-01-01", "step": "1d"}
IN_BERLIN = {"lower": "2024-12-31T17:30:00+01:00", "upper": "2025-01-01T05:30+01:00", "step": "6h"}
# Kind, column, window, and how many of the rows each chunk has.
KINDS: list[tuple[ChunkKind, str, dict[str, Any], list[int]]] = [
    ("uuid", "u", {"buckets": 4}, [4, 4, 2, 0]),
    ("integer", "id", {"lower": "2", "upper": "8", "step": "3"}, [3, 3, 1]),
    ("date", "d", DAYS, [5, 5]),
    ("date", "t", DAYS, [5, 5]),
    ("date", "z", {**DAYS, "upper": "9999-12-31", "step": "8000y"}, [10]),
    ("timestamp", "t", {"lower": "2024-12-31T16:30:00", "upper": "2025-01-01T04:30", "step": "6h"}, [4, 4]),
    ("timestamp", "z", IN_BERLIN, [4, 4]),
]


def moment(number: int) -> str:
    minutes = 16 * 60 + 30 + 90 * number
    day = "2024-12-31" if minutes < 1440 else "2025-01-01"
    return f"{day} {minutes % 1440 // 60:02}:{minutes % 60:02}:00"


def test_the_slice_of_a_chunk_is_the_one_that_was_read(bench: Bench) -> None:
    for kind, column, window, sizes in KINDS:
        bench.adapter.create_moments([(n, u, moment(n)[:10], moment(n), f"{moment(n)} +00:00") for n, u in START])
        left = list(range(10))
        first = 2 if kind == "integer" else 0
        for chunk, size in zip(Plan(ChunkSpec(kind, column, **window)), sizes, strict=True):
            where = {"chunk": chunk, "column": column, "table": MOMENTS, "source_has_rows": lambda: True}
            bench.again(bench.hold(), "replace", bench.adapter.stream(NOTHING_ELSE, []), **where)
            left = [n for n in left if not first <= n < first + size]
            first += size
            assert bench.adapter.moments() == left, (kind, column)


def test_without_state_tables_a_chunk_is_written_under_its_locks_and_leaves_no_receipt(adapter: Adapter) -> None:
    adapter.create_orders(OLD)
    held = Claim(RUN_KEY, 1, 1, worker())
    with contextlib.closing(adapter.without_state()) as target:
        handle = target.tables.loadable(TARGET)
        assert handle is not None
        live = LiveSlice("replace", SLICE, "id", False)
        write = ChunkWrite(TARGET, handle.object_id, handle.digest, CONTRACT, "plan", "binding", live)

        def written(*rows: tuple[int, str | None, str | None]) -> ChunkReceipt:
            return target.tables.write_chunk(held, write, adapter.stream(CONTRACT, rows))

        with pytest.raises(LeaseLost, match="its lock is not held by this session; the campaign's lock"):
            written((10, "new", None))
        assert target.fence.try_lock_chunk(RUN_KEY, 1)
        with pytest.raises(LeaseLost, match=r"chunk 1: the campaign's lock"):
            written((10, "new", None))
        assert target.fence.lock_campaign(RUN_KEY, "shared", 1)
        assert adapter.orders() == OLD
        for _ in range(2):  # nothing tells that it is there, and it replaces itself
            assert (written((10, "new", None)).rows, len(adapter.orders())) == (1, 3)
        assert [row[:2] for row in adapter.orders()] == [(9, "before"), (10, "new"), (20, "after")]
        target.fence.unlock_chunk(RUN_KEY, 1)
        with pytest.raises(LeaseLost, match=r"chunk 1: its lock"):
            written((10, "newer", None))
    assert adapter.state() == {}

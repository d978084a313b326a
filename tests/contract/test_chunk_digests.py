"""What every adapter does with a chunk's digest: compare it in the writing transaction, and keep it in the receipt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from dpone_dagster.campaign.errors import DigestMismatch
from dpone_dagster.campaign.ledger import Claim
from dpone_dagster.campaign.plan import Chunk
from dpone_dagster.campaign.receipts import ChunkReceipt, DigestTotals, digest_sum
from dpone_dagster.campaign.slices import Action, LiveSlice
from dpone_dagster.ports.tables import ChunkWrite
from dpone_dagster.postgres.target import PostgresTarget
from tests.contract.conftest import Adapter, Parts
from tests.contract.samples import CONTRACT, RUN_KEY, TARGET, claim, start

Row = tuple[int, str | None, str | None]
SLICE = Chunk(1, "integer", "10", "19", True)
# The escapes of the digest's text, an empty text beside NULL, and what two servers may encode otherwise.
ROWS: list[Row] = [(11, "~|~0", None), (12, "", "{}"), (13, None, "{}"), (14, "naïve 😀 ", None)]
ACTIONS: list[Action] = ["append", "merge", "replace", "refresh"]


@dataclass
class Bench:
    """One session that holds the campaign; its table is empty."""

    adapter: Adapter
    target: Parts
    index: int = 0

    def hold(self) -> Claim:
        self.index += 1
        return claim(self.target, self.index)

    def write(self, held: Claim, action: Action | None, rows: list[Row], digest: str) -> ChunkReceipt:
        """Write rows of which the source says that they have this digest; into a shadow without an action."""
        stream: Any = self.adapter.stream(CONTRACT, rows)
        stream.digest = digest
        handle = self.target.tables.loadable(TARGET)
        assert handle is not None
        live = None if action is None else LiveSlice(action, SLICE, "id", allow_empty=True)
        write = ChunkWrite(TARGET, handle.object_id, handle.digest, CONTRACT, "plan", "binding", live, digested=True)
        return self.target.tables.write_chunk(held, write, stream)

    def content(self) -> str:
        return self.target.tables.content_digest(TARGET, CONTRACT)


@pytest.fixture
def bench(adapter: Adapter, target: Parts) -> Bench:
    start(target, chunks=12)
    assert target.fence.lock_campaign(RUN_KEY, "shared", 1)
    adapter.create_orders([])
    return Bench(adapter, target)


@pytest.mark.parametrize("action", ACTIONS)
def test_another_digest_than_was_read_is_noted_in_the_live_table_s_receipt(bench: Bench, action: Action) -> None:
    first = bench.write(bench.hold(), action, ROWS, "4:7")
    assert bench.adapter.orders() == ROWS
    sum_of_rows = digest_sum(bench.content())
    assert first.diagnostics == {"digest": "7", "target_digest": sum_of_rows}
    assert bench.target.ledger.receipt(RUN_KEY, 1) == first
    if action == "append":
        return
    equal = bench.write(bench.hold(), action, ROWS, bench.content())
    assert equal.diagnostics == {"digest": sum_of_rows}
    number = int(sum_of_rows)
    assert bench.target.ledger.digest_totals(RUN_KEY, 5) == DigestTotals(2, 7 + number, 2 * number, 1, (1,))


def test_another_digest_than_was_read_fails_a_shadow_s_chunk(bench: Bench) -> None:
    held = bench.hold()
    with pytest.raises(DigestMismatch, match="chunk 1: digest 4:7 read, 4:"):
        bench.write(held, None, ROWS, "4:7")
    assert bench.adapter.orders() == []
    assert bench.target.ledger.receipt(RUN_KEY, 1) is None
    bench.write(held, "append", ROWS, "4:7")
    content = bench.content()
    bench.write(bench.hold(), "refresh", [], "0:0")

    receipt = bench.write(bench.hold(), None, ROWS, content)
    assert (receipt.rows, receipt.diagnostics) == (4, {"digest": digest_sum(content)})
    assert bench.adapter.orders() == ROWS


@pytest.mark.parametrize("action", [None, *ACTIONS])
def test_a_chunk_without_rows_has_a_digest_too(bench: Bench, action: Action | None) -> None:
    assert bench.write(bench.hold(), action, [], "0:0").diagnostics == {"digest": "0"}


def test_sums_of_digests_are_exact_beyond_64_bits(bench: Bench) -> None:
    most = 2**60 - 1
    for _ in range(11):
        bench.write(bench.hold(), "append", [], f"0:{most}")
    totals = bench.target.ledger.digest_totals(RUN_KEY, 3)
    assert (totals.receipts, totals.source, totals.target) == (11, 11 * most, 0)
    assert (totals.differing, totals.first_differing) == (11, (1, 2, 3))


def test_no_digest_is_noted_where_none_is_asked_for(bench: Bench) -> None:
    stream = bench.adapter.stream(CONTRACT, ROWS)
    handle = bench.target.tables.loadable(TARGET)
    assert handle is not None
    live = LiveSlice("append", SLICE, "id")
    write = ChunkWrite(TARGET, handle.object_id, handle.digest, CONTRACT, "plan", "binding", live)
    assert bench.target.tables.write_chunk(bench.hold(), write, stream).diagnostics == {}
    assert bench.target.ledger.digest_totals(RUN_KEY, 5) == DigestTotals(0, 0, 0, 0)
    if isinstance(bench.target, PostgresTarget):
        made_a_stage = bench.target.session.connection.execute("SELECT pg_my_temp_schema() <> 0").fetchone()
        assert made_a_stage == (False,)

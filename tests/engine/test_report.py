"""The report of a campaign in every phase, with each kind of target; its size does not grow with the campaign's."""

from __future__ import annotations

import tracemalloc

import psycopg

from dpone_dagster.campaign.errors import CatalogDrift
from dpone_dagster.campaign.ledger import Claim, Worker
from dpone_dagster.campaign.receipts import Approval
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.engine.cancel import cancel
from dpone_dagster.engine.complete import complete
from dpone_dagster.engine.increment import run_increment
from dpone_dagster.engine.prepare import prepare
from dpone_dagster.engine.report import MOST_GROUPS, campaign_report
from dpone_dagster.engine.rollback import rollback
from dpone_dagster.engine.sessions import target_session
from dpone_dagster.engine.validate import validate
from dpone_dagster.mssql.quoting import quoted_table
from dpone_dagster.report.page import Advice, render
from tests.engine.campaign import Seen, finish, lane, load
from tests.engine.test_direct import direct
from tests.mssql_orders import MssqlOrders
from tests.orders import Orders, make_orders
from tests.pages import HtmlPage

ADVICE = Advice(
    "orders.yaml", "1.2.3", lambda text: text.replace("MANIFEST", "orders.yaml"), lambda code: f"mend {code}"
)


def html_of(orders: Orders) -> str:
    return render(campaign_report(orders.spec, orders.connector), ADVICE)


def page_of(orders: Orders) -> HtmlPage:
    return HtmlPage(html_of(orders))


def fail(orders: Orders, index: int) -> None:
    """As a lane does."""
    with target_session(orders.connector, "test") as target:
        assert target.fence.try_lock_chunk(orders.spec.run_key, index)
        (seen,) = target.ledger.chunks(orders.spec.run_key, ChunkSelection(((index, index + 1),)))
        claim = target.ledger.claim(orders.spec.run_key, seen, Worker("run-0", 0, "host-0", 1))
        assert isinstance(claim, Claim)
        assert target.ledger.fail(claim, CatalogDrift("the source lost <its> column"), stop=True)


def test_a_campaign_is_reported_from_its_plan_to_its_rollback(either: Orders) -> None:
    orders = either
    planned = page_of(orders)
    assert "Not prepared" in planned.text
    assert "Next: dpone backfill run orders.yaml --execute" in planned.text
    assert "4 uuid chunks of id" in planned.text

    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    prepared = page_of(orders)
    assert "Prepared The shadow is there and empty. 0 of 4 chunks are committed" in prepared.text
    assert [shape for shape in prepared.shapes if shape == "pending"] == ["pending"] * 5  # and one in the legend

    lane(orders, Seen(), selection=ChunkSelection(((0, 2),)))
    assert "Interrupted Nobody works on it. 2 of 4 chunks are committed" in page_of(orders).text
    fail(orders, 3)
    failed = page_of(orders)
    assert "Chunks failed 1 failed. 2 of 4 chunks are committed" in failed.text
    assert "CATALOG_DRIFT 1 chunk 3: the source lost <its> column mend CATALOG_DRIFT" in failed.text
    assert "chunk 3: failed" in failed.titles
    assert "not validated yet" in failed.text

    load(orders, intent="resume", run_id="run-2")
    assert "Loaded All chunks are committed" in page_of(orders).text
    receipt = finish(orders, run_id="run-2")
    orders.on_source("UPDATE public.orders SET note = 'changed' WHERE paid")
    run_increment(orders.spec, orders.connector, "inc-1")
    done = page_of(orders)
    assert "Published, handed over 400 rows are live as landing.orders; increments may run." in done.text
    for check in ("receipts complete", "row count", "unique key", "catalog", "not empty", "unique indexes"):
        assert f"{check} ✓ yes" in done.text
    assert "actual rows 400 , expected rows 400" in done.text
    assert f"Receipt {receipt.receipt_id}" in done.text
    assert f"Retained {receipt.backup}" in done.text
    assert "To undo dpone backfill rollback orders.yaml" in done.text
    assert "Receipts 4 for 4 chunks" in done.text
    assert "Keys reconciled since handoff or rewind yes" in done.text
    assert "Increments applied 1" in done.text
    assert "0 200 0" in done.text  # inserted, updated, deleted
    assert "run-1" in done.text
    assert "run-2" in done.text
    assert "✗" not in done.text
    assert {"committed", "bar"} <= set(done.shapes)
    assert all(any(t.startswith(f"chunk {i}: committed, ") for t in done.titles) for i in range(4))

    rollback(orders.spec, orders.connector, Approval("ada", "wrong <b>prices</b>"))
    undone = page_of(orders)
    assert "Rolled back The campaign was rolled back by ada: wrong <b>prices</b>" in undone.text
    assert "Reason wrong <b>prices</b>" in undone.text
    assert "increments may run" not in undone.text


def test_a_red_check_and_a_cancel_are_the_verdict(either: Orders) -> None:
    orders = either
    load(orders)
    shadow = orders.spec.shadow
    named = quoted_table(shadow) if isinstance(orders, MssqlOrders) else f'"{shadow.schema}"."{shadow.name}"'
    orders.on_target(f"DELETE FROM {named} WHERE paid = {'1' if isinstance(orders, MssqlOrders) else 'true'}")
    assert not validate(orders.spec, orders.connector, "run-1").passed
    blocked = page_of(orders)
    assert "Blocked Validation found row_count red; landing.orders is untouched." in blocked.text
    assert (
        "row count ✗ no actual rows 200 , expected rows 400 the shadow has 200 rows, its receipts say 400"
        in blocked.text
    )
    cancel(orders.spec, orders.connector, "wrong <i>table</i>", "ada")
    cancelled = page_of(orders)
    assert "Cancelled Cancelled by ada: wrong <i>table</i>. landing.orders is untouched." in cancelled.text


def test_a_direct_campaign_claims_no_untouched_table(either: Orders) -> None:
    orders = direct(either, "replace")
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    lane(orders, Seen(), selection=ChunkSelection(((0, 2),)))
    half = page_of(orders)
    assert "2 of 4 chunks are committed; landing.orders holds what is committed." in half.text
    assert "untouched" not in half.text
    load(orders, intent="resume", run_id="run-2")
    assert complete(orders.spec, orders.connector, "run-2") is not None
    done = page_of(orders)
    assert "Loaded 400 rows went straight into landing.orders." in done.text
    assert "Publication direct, replace" in done.text
    assert "Live table written to chunk by chunk; nothing from before is retained" in done.text


def test_names_of_the_catalog_are_text(new_database) -> None:  # type: ignore[no-untyped-def]
    orders = make_orders(new_database("oltp"), new_database("dwh"), rows=40, chunks=2)
    evil = "<script>alert(1)</script>"
    for url, table in ((orders.source_url, "public.orders"), (orders.target_url, "landing.orders")):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f'ALTER TABLE {table} RENAME note TO "{evil}"'.encode())
            connection.execute(f'ALTER TABLE {table} RENAME TO "o""<img src=x onerror=alert(1)>"'.encode())
    for side in ("source", "sink"):
        orders.manifest[side]["table"]["name"] = 'o"<img src=x onerror=alert(1)>'
    load(orders)
    finish(orders)
    html = html_of(orders)
    page = HtmlPage(html)
    assert evil in page.text
    assert 'landing."o""<img src=x onerror=alert(1)>"' in page.text
    assert "<script" not in html
    assert "<img" not in html


def test_a_report_of_a_hundred_thousand_chunks_is_small(new_database) -> None:  # type: ignore[no-untyped-def]
    orders = make_orders(new_database("oltp"), new_database("dwh"), rows=10, chunks=100_000)
    orders.backfill["max_chunks"] = 100_000
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    # As if 70 lanes of three runs had loaded most of them, one after the other, within an hour and a half.
    orders.on_target(
        "UPDATE system.__dpone__backfill_chunks SET state = CASE WHEN chunk_index % 9000 = 5 THEN 'failed' "
        "ELSE 'committed' END, receipt_id = chunk_index::text, rows = 1000 + chunk_index % 700, "
        "seconds = 2 + chunk_index % 7, error_code = 'E' || chunk_index, error = repeat('e', 300), "
        "worker_run_id = 'run-' || chunk_index % 3, worker_lane = chunk_index % 70, worker_host = 'h', worker_pid = 1, "
        "started_at = now() - interval '5400 s' + chunk_index * interval '50 ms', "
        "finished_at = now() - interval '5390 s' + chunk_index * interval '50 ms' WHERE chunk_index < 95000"
    )
    orders.on_target("UPDATE system.__dpone__backfill_campaigns SET phase = 'recoverable'")
    prepare(orders.spec, orders.connector, intent="resume", run_id="run-2")  # which counts anew
    tracemalloc.start()
    html = html_of(orders)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    page = HtmlPage(html)
    assert len(html) < 1_500_000
    assert peak < 60_000_000
    assert len([title for title in page.titles if title.startswith("chunks ")]) <= 2 * MOST_GROUPS
    assert "94,989 of 100,000 chunks are committed" in page.text
    assert "The 32 lanes with the most rows, of 210" in page.text
    assert "Chunks failed 11 failed." in page.text

"""Parts of a campaign, other windows and intervals, as an operator or a scheduler asks for them."""

from __future__ import annotations

import yaml

from tests.engine.campaign import load
from tests.operators import Operator


def test_failed_chunks_are_retried_alone_and_that_is_a_success(operator: Operator) -> None:
    orders = operator.orders
    assert operator.json("retry-failed", "--execute", exit_code=2)["error"]["code"] == "CAMPAIGN_MISSING"
    orders.on_target("ALTER TABLE landing.orders ALTER COLUMN note TYPE varchar(40)")
    first = "id = (SELECT min(id::text)::uuid FROM public.orders)"
    orders.on_source(f"UPDATE public.orders SET note = repeat('x', 50) WHERE {first}")
    one_lane = ("--lanes", "1")
    failed = operator.json("run", "--execute", *one_lane, exit_code=1)
    assert failed["backfill"]["operation_status"] == "failed"
    counts = failed["backfill"]["progress"]
    assert (counts["failed"], counts["pending"], counts["committed"]) == (1, 7, 0)
    assert "retry-failed" in failed["recommended_action"]
    advice = operator.json("plan", "--advisor")["advisor"]
    assert (advice["recommendation"], advice["evidence_sources"]) == ("reduce_to_one_lane", ["chunk_ledger"])

    before = operator.state()
    preview = operator.json("retry-failed")
    assert (preview["dry_run"], preview["backfill"]["selected_chunks"]) == (True, 1)
    assert preview["backfill"]["retry_policy"] == "failed_only"
    assert operator.state() == before
    again = operator.json("retry-failed", "--execute", exit_code=1)
    assert [failure["place"] for failure in again["failures"]] == ["chunk 0"]

    orders.on_source(f"UPDATE public.orders SET note = 'short' WHERE {first}")
    done = operator.json("retry-failed", "--execute")
    assert done["backfill"]["operation_status"] == "succeeded"
    counts = done["backfill"]["progress"]
    assert (counts["failed"], counts["pending"], counts["committed"]) == (0, 7, 1)
    assert done["phase"] == "recoverable"
    assert operator.run("retry-failed", "--execute").stdout.startswith("nothing to do, no chunk has failed")
    assert len(operator.shown_partitions()) == 1, "a chunk that is pending is not shown as loaded"

    assert operator.run("resume").returncode == 0
    assert orders.source_rows() == orders.target_rows()


def test_a_window_by_flags_is_another_plan_and_a_pinned_campaign_refuses_it(operator: Operator) -> None:
    orders = operator.orders
    load(orders)
    before = operator.state()
    for words in (("run", "--execute"), ("resume",), ("retry-failed", "--execute")):
        error = operator.json(*words, "--buckets", "4", exit_code=2)["error"]
        assert (error["code"], "--buckets" in error["next_step"]) == ("PLAN_DRIFT", True), words
    status = operator.json("status", "--buckets", "4")
    assert "--buckets" in status["recommended_action"]
    assert operator.json("doctor", "--buckets", "4", exit_code=1)["next_action"] == status["recommended_action"]
    assert operator.state() == before

    other = ("--buckets", "4", "--backfill-id", "orders_2")
    assert operator.json("status", *other)["phase"] == "planned"
    told = operator.run("status", *other).stdout
    assert told.rstrip().endswith(f"dpone backfill run {operator.manifest} {' '.join(other)} --execute")
    done = operator.json("run", "--execute", *other)
    assert done["backfill"]["progress"]["committed"] == 4
    assert orders.source_rows() == orders.target_rows()


def test_dpone_run_does_what_the_manifest_is_for(operator: Operator) -> None:
    orders = operator.orders
    operator.environment |= {"DPONE_INTERVAL_START": "2024-01-01T00:00:00+00:00", "DPONE_DAG_RUN_ID": "scheduled__1"}
    done = operator.json("run", group=())
    assert (done["outcome"], done["phase"]) == ("done", "handoff_committed")
    assert done["backfill"]["interval"] == {
        "start": "2024-01-01T00:00:00+00:00",
        "end": None,
        "logical_date": "2024-01-01T00:00:00+00:00",
        "dag_id": None,
        "dag_run_id": "scheduled__1",
        "try_number": None,
    }
    orders.on_source("UPDATE public.orders SET note = 'changed' WHERE paid")
    increments = yaml.safe_load(operator.manifest.read_text())
    increments["source"]["options"]["xmin_execution"]["mode"] = "incremental"
    increments["sink"]["strategy"] = {"mode": "incremental_merge", "unique_key": ["id"]}
    increments["state"]["schema"] = "system"
    operator.manifest.write_text(yaml.safe_dump(increments))
    increment = operator.json("run", group=())
    assert increment["outcome"] == "done"
    assert orders.source_rows() == orders.target_rows()


def test_a_run_of_an_interval_replaces_its_slice_and_nothing_else(operator: Operator) -> None:
    orders = operator.orders
    orders.manifest["source"].pop("options")
    orders.backfill.pop("publication")
    window = {"column": "placed_at", "from": "{{ data_interval_start }}", "to": "{{ data_interval_end }}", "step": "1h"}
    orders.backfill.update(inner_mode="partition_replace", backfill_id="orders_{{ dag_run_id }}", chunk=window)
    orders.write(operator.folder)
    refused = operator.json("run", group=(), exit_code=2)["error"]
    assert {finding["path"].rpartition(".")[2] for finding in refused["findings"]} == {"from", "to", "backfill_id"}
    assert "DPONE_INTERVAL_START" in str(refused["findings"])

    # The first ten minutes, by another clock; its end is the first instant of the next interval.
    interval = ("--interval-start", "2024-01-01T01:00:00+01:00", "--interval-end", "2024-01-01T01:10:00+01:00")
    wanted = [row for row in orders.source_rows() if row[2].minute < 10 and row[2].hour == 0]
    assert len(wanted) == 599
    for number in (1, 2):
        operator.environment["DPONE_DAG_RUN_ID"] = f"scheduled__2024-01-01T00:00:00+00:0{number}"
        done = operator.json("run", *interval, group=())
        assert (done["outcome"], done["backfill"]["progress"]["committed"]) == ("done", 1)
        assert orders.target_rows() == wanted
        orders.on_source("UPDATE public.orders SET note = 'changed'")
        wanted = [(*row[:3], "changed", *row[4:]) for row in wanted]
    assert operator.json("status", *interval)["phase"] == "published"

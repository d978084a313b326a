"""What blocks a campaign at its validation, and how it goes on, with each kind of target."""

from __future__ import annotations

import json
from decimal import Decimal

from dpone_dagster.campaign.ledger import Phase
from dpone_dagster.engine.doctor import doctor
from dpone_dagster.engine.inspect import status
from dpone_dagster.engine.prepare import prepare
from dpone_dagster.engine.publish import publish
from dpone_dagster.engine.validate import validate
from tests.engine.campaign import finish, load
from tests.orders import Orders


def test_rows_that_a_second_unique_index_forbids_block_until_the_cause_is_gone(either: Orders) -> None:
    either.on_target("CREATE UNIQUE INDEX orders_amount ON landing.orders (amount)")
    either.on_source(
        "UPDATE public.orders SET amount = 5000.5 WHERE id IN (SELECT id FROM public.orders ORDER BY id LIMIT 3)"
    )
    old = either.target_rows()
    names = either.index_names()
    load(either)
    evidence = validate(either.spec, either.connector, "run-1")
    (red,) = [check for check in evidence.checks if not check.passed]
    assert (red.name, red.numbers) == ("unique_indexes", {"violated_indexes": 1, "surplus_rows": 2})
    assert "orders_amount" in red.problem
    assert "2 rows too many" in red.problem
    assert "5000" not in json.dumps(evidence.as_dict())
    seen = status(either.spec, either.connector)
    assert (seen.phase, seen.publication_dict()["validation"]) == (Phase.BLOCKED, "blocked")
    assert [(f.path, f.problem) for f in seen.findings] == [("unique_indexes", red.problem)]
    assert "dpone backfill resume MANIFEST" in seen.recommended_action
    diagnosis = doctor(either.spec, either.connector)
    assert (diagnosis.findings, diagnosis.next_action) == (seen.findings, red.next_step)
    assert either.target_rows() == old

    shadow = f"{either.spec.shadow.schema}.{either.spec.shadow.name}"
    (_, *others) = sorted(row[0] for row in either.rows_of(either.spec.shadow) if row[1] == Decimal("5000.5"))
    for number, key in enumerate(others):
        either.on_target(f"UPDATE {shadow} SET amount = {1_000_001 + number} WHERE id = '{key}'")
    loaded = either.rows_of(either.spec.shadow)
    prepare(either.spec, either.connector, intent="resume", run_id="run-2")
    assert validate(either.spec, either.connector, "run-2").passed
    assert status(either.spec, either.connector).phase is Phase.VALIDATED
    publish(either.spec, either.connector, "run-2")
    finish(either, run_id="run-2")
    assert either.target_rows() == loaded
    assert either.index_names() == names


def test_a_key_that_comes_twice_blocks_though_the_count_is_right(either: Orders) -> None:
    load(either)
    shadow = f"{either.spec.shadow.schema}.{either.spec.shadow.name}"
    one, other = either.rows_of(either.spec.shadow)[:2]
    either.on_target(f"UPDATE {shadow} SET id = '{one[0]}' WHERE id = '{other[0]}'")
    red = {check.name: check.numbers for check in validate(either.spec, either.connector, "run-1").red}
    assert red == {
        "unique_key": {"null_keys": 0, "duplicate_keys": 1},
        "unique_indexes": {"violated_indexes": 1, "surplus_rows": 1},
    }
    assert status(either.spec, either.connector).phase is Phase.BLOCKED
    either.on_target(f"UPDATE {shadow} SET id = '{other[0]}' WHERE id = '{one[0]}' AND amount = {other[1]}")
    finish(either)
    assert either.target_rows() == either.source_rows()


def test_digests_find_a_value_that_was_changed_in_the_shadow(either: Orders) -> None:
    """Neither count nor key nor catalog shows it; the source goes on changing, which is no difference."""
    either.backfill["verification"] = "digest"
    shadow = f"{either.spec.shadow.schema}.{either.spec.shadow.name}"
    load(either)
    either.on_source("UPDATE public.orders SET amount = amount + 1")
    (key, note) = next((row[0], row[3]) for row in either.rows_of(either.spec.shadow) if row[3])
    either.on_target(f"UPDATE {shadow} SET note = 'by hand' WHERE id = '{key}'")
    evidence = validate(either.spec, either.connector, "run-1")
    (red,) = evidence.red
    assert (red.name, red.numbers["digested_chunks"]) == ("digest", 4)
    assert red.numbers["source_digest"] != red.numbers["target_digest"]
    seen = status(either.spec, either.connector)
    assert (seen.phase, seen.verification_dict()["status"]) == (Phase.BLOCKED, "blocked")
    assert [finding.path for finding in seen.findings] == ["digest"]

    _set_note(either, shadow, key, note)
    assert validate(either.spec, either.connector, "run-1").passed
    said = status(either.spec, either.connector).verification_dict()
    assert (said["compared"], said["digested_chunks"]) == ("digest", 4)
    assert said["source_digest"] == said["target_digest"] == red.numbers["source_digest"]


def _set_note(orders: Orders, table: str, key: object, note: str) -> None:
    orders.on_target(f"UPDATE {table} SET note = N'{note}' WHERE id = '{key}'")

"""What the runbook tells to do by hand does what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.engine.cancel import cancel
from dpone_dagster.engine.prepare import prepare
from dpone_dagster.engine.validate import validate
from tests.engine.campaign import Seen, lane, load
from tests.orders import Orders

RUNBOOK = Path(__file__).parents[2] / "docs" / "runbook.md"


def block(words: str) -> str:
    """The one block of SQL that has these words, without its comment."""
    (found,) = [b for b in re.findall(r"```sql\n-- .*?\n(.*?)```", RUNBOOK.read_text(), re.DOTALL) if words in b]
    return str(found)


def test_the_row_behind_a_key_digest_is_found(orders: Orders) -> None:
    orders.on_target("ALTER TABLE landing.orders ALTER COLUMN note TYPE varchar(40)")
    bad = "(SELECT id FROM public.orders WHERE NOT paid ORDER BY id DESC LIMIT 1)"
    orders.on_source(f"UPDATE public.orders SET note = repeat('secret ', 10) WHERE id = {bad}")
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    seen = Seen()
    lane(orders, seen)
    ((index, error),) = seen.errors.items()
    (digest,) = re.findall("[0-9a-f]{64}", str(error))

    asked = block("k.lower_bound").replace("k.chunk_index = 3", f"k.chunk_index = {index}")
    asked = asked.replace("'orders_initial_v1'", f"'{orders.spec.backfill_id}'")
    ((digest_key, lower, upper, _),) = orders.on_target(asked)
    asked = block("sha256")
    values = {"digest_key": digest_key, "lower_bound": lower, "upper_bound": upper, "digest": digest}
    for name, value in values.items():
        asked = asked.replace(f"<{name}>", value)
    *settings, query = asked.removesuffix(";\n").split(";")
    assert all("SET" in setting for setting in settings)
    assert [row[3] for row in orders.on_source(query)] == ["secret " * 10]


def test_the_shadow_of_an_abandoned_campaign_is_found_and_dropped(either: Orders) -> None:
    load(either)
    cancel(either.spec, either.connector, "abandoned", "ada")
    ((dataset, backfill_id, phase, *shadow, _),) = either.on_target(block("phase NOT IN"))
    assert (dataset, backfill_id, phase) == ("orders", either.spec.backfill_id, "cancelled")
    assert shadow == [either.spec.shadow.schema, either.spec.shadow.name]
    either.on_target(block("DROP TABLE landing").replace("landing.orders__dpone_shadow_0123456789", ".".join(shadow)))
    assert either.tables() == ["orders"]
    load(either, intent="resume", run_id="run-2")
    with pytest.raises(DponeError, match=either.spec.shadow.name):
        validate(either.spec, either.connector, "run-2")

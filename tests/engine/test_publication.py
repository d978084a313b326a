"""What happened between validation and publication is found by the publication itself, with each kind of target."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from dpone_dagster.campaign.errors import CampaignCancelled, CatalogDrift
from dpone_dagster.campaign.ledger import Phase
from dpone_dagster.campaign.receipts import PublicationReceipt
from dpone_dagster.engine import publish as publishing
from dpone_dagster.engine.inspect import status
from dpone_dagster.engine.publish import publish
from dpone_dagster.engine.validate import validate
from tests.engine.campaign import load
from tests.orders import Orders


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("DELETE FROM {shadow} WHERE amount IS NOT NULL", "rows, its receipts say 400"),
        ("ALTER TABLE landing.orders ADD more int NULL", "was altered since the campaign was prepared"),
        ("ALTER TABLE landing.orders ADD CONSTRAINT few CHECK (amount < 1000000)", "landing.orders"),
        ("DROP TABLE {shadow}", "is gone"),
    ],
)
def test_what_changed_since_the_validation_is_not_published(either: Orders, change: str, found: str) -> None:
    load(either)
    assert validate(either.spec, either.connector, "run-1").passed
    either.on_target(change.format(shadow=f"landing.{either.spec.shadow.name}"))
    rows = either.target_rows()
    with pytest.raises(CatalogDrift, match=found):
        publish(either.spec, either.connector, "run-1")
    assert either.target_rows() == rows
    seen = status(either.spec, either.connector)
    assert (seen.phase, seen.publication) == (Phase.VALIDATED, None)


def test_a_cancel_that_comes_while_it_begins_is_not_published_over(
    either: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(either)
    assert validate(either.spec, either.connector, "run-1").passed
    rows, draft = either.target_rows(), publishing._draft

    def cancelled_meanwhile(*parts: Any) -> PublicationReceipt:
        with contextlib.closing(either.connector.target("test cancel")) as other:
            assert other.ledger.cancel(either.spec.run_key, "enough", "somebody")
        return draft(*parts)

    monkeypatch.setattr(publishing, "_draft", cancelled_meanwhile)
    with pytest.raises(CampaignCancelled):
        publish(either.spec, either.connector, "run-1")
    assert either.target_rows() == rows
    assert status(either.spec, either.connector).phase is Phase.CANCELLED


def test_a_table_that_took_the_shadows_name_is_not_swapped_in(orders: Orders) -> None:
    load(orders)
    assert validate(orders.spec, orders.connector, "run-1").passed
    shadow, rows = orders.spec.shadow.name, orders.target_rows()
    orders.on_target(f"ALTER TABLE landing.{shadow} RENAME TO aside")
    orders.on_target(f"CREATE TABLE landing.{shadow} (LIKE landing.aside INCLUDING ALL)")
    orders.on_target(f"INSERT INTO landing.{shadow} SELECT * FROM landing.aside")
    with pytest.raises(CatalogDrift, match="is not this campaign's shadow any more"):
        publish(orders.spec, orders.connector, "run-1")
    assert orders.target_rows() == rows

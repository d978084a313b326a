"""What a person does in Dagster's UI, in a real browser before a real `dagster dev`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.studio import browser_page, chromium, dagster_dev
from tests.orders import Orders
from tests.servers.receivers import Hook, web_hook
from tests.waiting import PATIENCE_SECONDS, within

pytestmark = pytest.mark.slow

expect.set_options(timeout=PATIENCE_SECONDS * 1_000)


def select(page: Page, asset: str) -> None:
    """Open the asset graph and select one of its assets."""
    page.goto("/asset-groups/", wait_until="domcontentloaded")
    page.get_by_text(asset, exact=True).first.click()


def button(page: Page, name: str, *, exact: bool = False) -> None:
    """Click it; the name of one with an icon says more than its text."""
    page.get_by_role("button", name=name, exact=exact).click()


def launch(page: Page, name: str) -> None:
    """Click what launches, and stay until the server has taken it."""
    with page.expect_response(lambda response: "mutation Launch" in (response.request.post_data or "")) as taken:
        button(page, name)
    assert "Success" in taken.value.text()


def launch_all(page: Page, asset: str) -> None:
    """Launch a backfill of all partitions from the dialog."""
    select(page, asset)
    button(page, "Materialize selected")
    expect(page.get_by_text("Backfills all partitions in a single run.")).to_be_visible()
    button(page, "All", exact=True)
    launch(page, "Launch backfill")


def counts(page: Page, asset: str, **expected: int) -> None:
    """Watch the partitions' tab until it has these numbers."""
    page.goto(f"/assets/orders/{asset}?view=partitions", wait_until="domcontentloaded")
    for state, number in expected.items():
        expect(page.get_by_text(f"{state} ({number})")).to_be_visible()


@pytest.fixture
def hook() -> Iterator[Hook]:
    """Where alerts go."""
    with web_hook() as running:
        yield running


def test_a_backfill_turns_green_and_a_red_check_says_why_and_is_told(
    orders: Orders, hook: Hook, tmp_path: Path
) -> None:
    chromium()
    chunks = orders.spec.plan.count
    manifest = str(orders.write(tmp_path))
    environment = {**orders.environment, "DPONE_MANIFESTS": manifest, "DPONE_NOTIFY_WEBHOOK_URL": hook.url}
    with dagster_dev(tmp_path / "dagster", environment) as address, browser_page(address) as page:
        counts(page, "shadow", Materialized=0, Missing=chunks)
        launch_all(page, "shadow")
        counts(page, "shadow", Materialized=chunks, Missing=0, Failed=0)

        lose_a_row(orders)
        select(page, "validated_shadow")
        launch(page, "Materialize selected")
        open_check(page, "row_count")
        expect(page.get_by_text("Evaluation result")).to_be_visible()
        expect(page.get_by_text("This is a blocking asset check.")).to_be_visible()
        expect(page.get_by_text("next_step")).to_be_visible()
        assert within(PATIENCE_SECONDS, lambda: "validation_blocked" in told(hook)), told(hook)
        alert = told(hook)["validation_blocked"]
        assert alert["state"] == "raised"
        assert alert["dataset"] == "orders"
        assert alert["next_step"]


def told(hook: Hook) -> dict[str, dict[str, Any]]:
    """The alerts that have arrived, by their condition."""
    return {posted.body["condition"]: posted.body for posted in list(hook.posted)}


def lose_a_row(orders: Orders) -> None:
    """What no campaign does, and what its checks are for."""
    shadow = f'"{orders.spec.shadow.schema}"."{orders.spec.shadow.name}"'
    orders.on_target(f"DELETE FROM {shadow} WHERE id = (SELECT min(id::text)::uuid FROM {shadow})")


def open_check(page: Page, check: str) -> None:
    """Open a check once it has failed."""
    page.goto("/assets/orders/validated_shadow?view=checks", wait_until="domcontentloaded")
    expect(page.get_by_text("Failed").first).to_be_visible()
    page.get_by_text(check, exact=True).first.click()

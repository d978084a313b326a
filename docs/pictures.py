"""Take the pictures of the papers from the real thing: `make demo`, then `python -m docs.pictures`.

Needs a Chromium, which `playwright` drives but does not bring.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).parent.parent
FOLDER = Path(__file__).parent / "images"
_SETTLE_MILLISECONDS = 6_000


def main() -> None:
    """Take every picture."""
    FOLDER.mkdir(exist_ok=True)
    with _webserver() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        _asset_graph(browser, address)
        _card(browser, address)
        _report(browser)
        browser.close()


def _asset_graph(browser: Browser, address: str) -> None:
    """The assets of the demo's campaign."""
    page = browser.new_page(viewport={"width": 1500, "height": 560})
    page.goto(f"{address}/asset-groups/", wait_until="domcontentloaded")
    page.get_by_text("Hide navigation").click()
    page.wait_for_timeout(_SETTLE_MILLISECONDS)
    page.screenshot(path=str(FOLDER / "asset-graph.png"))


def _card(browser: Browser, address: str) -> None:
    """The campaign's card on its shadow."""
    page = browser.new_page(viewport={"width": 1500, "height": 1120})
    page.goto(f"{address}/assets/orders/shadow?view=overview", wait_until="domcontentloaded")
    page.get_by_text("Hide navigation").click()
    page.get_by_text("slowest_chunks").wait_for()
    page.wait_for_timeout(_SETTLE_MILLISECONDS)
    page.screenshot(path=str(FOLDER / "campaign-card.png"))


def _report(browser: Browser) -> None:
    """The head of the demo's report."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        environment = {**os.environ, "DPONE_CONNECTIONS_FILE": str(ROOT / ".dpone/demo/connections.yaml")}
        command = [sys.executable, "-m", "dpone_dagster.cli", "backfill", "report", "examples/orders.yaml"]
        subprocess.run([*command, "--output", str(path)], cwd=ROOT, env=environment, check=True)  # noqa: S603
        page = browser.new_page(viewport={"width": 1160, "height": 1500})
        page.goto(path.as_uri())
        page.screenshot(path=str(FOLDER / "report.png"))


@contextlib.contextmanager
def _webserver() -> Iterator[str]:
    """Dagster's UI over the demo's own state."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(ROOT / ".dpone/dagster"),
        "DPONE_MANIFESTS": str(ROOT / "examples/orders.yaml"),
    }
    command = [sys.executable, "-m", "dagster_webserver", "-m", "dpone_dagster.definitions"]
    address = f"http://127.0.0.1:{port}"
    server = subprocess.Popen([*command, "-h", "127.0.0.1", "-p", str(port)], cwd=ROOT, env=environment)  # noqa: S603
    try:
        for _ in range(60):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/server_info"):  # noqa: S310
                break
            time.sleep(1)
        yield address
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()

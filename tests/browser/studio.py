"""`dagster dev` over one campaign, and a headless Chromium in front of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright

import dpone_dagster
from tests.waiting import PATIENCE_SECONDS, within

ROOT = Path(__file__).parents[2]
SETTINGS = Path(dpone_dagster.__file__).parent / "dagster.yaml"
# Where a failed test leaves what it saw.
FOLDER = ROOT / ".dpone" / "browser"
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_STOP_SECONDS = 30


def chromium() -> str:
    """The machine's own; Playwright's download of one is not reachable everywhere."""
    found = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if found is None:
        pytest.skip("there is no Chromium (Debian: apt-get install chromium): NOTHING OF THE UI WAS TRIED")
    return found


@contextlib.contextmanager
def dagster_dev(home: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Start it as `make ui` does; yields its address once it serves.

    Args:
        home: DAGSTER_HOME, a folder that will be made.
        environment: Beside this process's.
    """
    home.mkdir()
    shutil.copy(SETTINGS, home)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "dagster", "dev", "--workspace", "workspace.yaml", "--host", "127.0.0.1"]
    with (home / "dev.log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "--port", str(port)],
            cwd=ROOT,
            env={**os.environ, **environment, "DAGSTER_HOME": str(home)},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        address = f"http://127.0.0.1:{port}"
        assert within(PATIENCE_SECONDS, lambda: _serves(server, address)), (home / "dev.log").read_text()
        yield address
    finally:
        # Its services and runs are in its process group; whatever outlives a polite word goes with the group.
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(_STOP_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _serves(server: subprocess.Popen[bytes], address: str) -> bool:
    assert server.poll() is None, "dagster dev ended"
    with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/server_info", timeout=5):
        return True
    return False


@contextlib.contextmanager
def browser_page(address: str) -> Iterator[Page]:
    """A page; when the block fails, a picture of it and its text stay in `.dpone/browser`.

    Args:
        address: What relative addresses are relative to.
    """
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(base_url=address, viewport={"width": 1500, "height": 900})
        page.set_default_timeout(PATIENCE_SECONDS * 1_000)
        page.set_default_navigation_timeout(PATIENCE_SECONDS * 1_000)
        try:
            yield page
        except BaseException:
            FOLDER.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=FOLDER / "failure.png", timeout=0)
            (FOLDER / "failure.txt").write_text(f"{page.url}\n{page.inner_text('body')}")
            raise
        finally:
            browser.close()

"""A short, seeded slice of `make chaos`; and its oracle sees what it is there to see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos import oracle
from tests.chaos.__main__ import servers
from tests.chaos.campaign import Campaign
from tests.chaos.ground import make_ground
from tests.chaos.shape import shape_of
from tests.engine.campaign import finish, load
from tests.servers.postgres import Restartable

SEEDS = (5002, 5005, 5009)  # killed and cancelled; a server that recovers; all killed while starting


@pytest.fixture(scope="module")
def server() -> Iterator[Restartable]:
    """One that only these tests use, for it is restarted."""
    with servers("postgres") as (made, _, _):
        yield made


@pytest.mark.slow
def test_random_campaigns_end_in_exact_content(server: Restartable, tmp_path: Path) -> None:
    hits = 0
    for seed in SEEDS:
        urls = server.recreate(f"oltp_{seed}"), server.recreate(f"dwh_{seed}")
        folder = tmp_path / str(seed)
        folder.mkdir()
        outcome = Campaign(shape_of(seed), server, urls, folder).play()
        assert outcome.problems == [], (folder / "log").read_text()[-4_000:]
        hits += outcome.hits
    assert hits >= 2, "nothing has happened to them"


def test_a_seed_is_one_campaign() -> None:
    assert shape_of(7) == shape_of(7)
    assert len({shape_of(seed).kind for seed in range(50)}) == 4
    assert len({event.action for seed in range(50) for event in shape_of(seed).events}) == 9


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        ("UPDATE landing.orders SET note = 'x' WHERE id = (SELECT min(id::text)::uuid FROM landing.orders)", "content"),
        ("CREATE TABLE landing.__dpone_stage_1 (id uuid)", "tables"),
        ("DELETE FROM system.__dpone__chunk_receipts WHERE chunk_index = 0", "receipts"),
        ("DELETE FROM system.__dpone__backfill_chunks WHERE chunk_index = 0", "chunks"),
        ("DELETE FROM system.__dpone__xmin_checkpoints", "checkpoint None"),
    ],
)
def test_the_oracle_sees(server: Restartable, spoil: str, said: str) -> None:
    urls = server.recreate("oltp_spoilt"), server.recreate("dwh_spoilt")
    orders = make_ground(shape_of(SEEDS[0]), *urls)
    load(orders)
    finish(orders)
    orders.on_target(spoil)
    found = oracle.told(oracle.campaign_is_exact(orders))
    assert any(finding.startswith(said) for finding in found), found

"""What doctor sees around a campaign: warnings, which stand in nobody's way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dpone_dagster.engine import surroundings
from dpone_dagster.engine.doctor import Diagnosis, doctor
from dpone_dagster.engine.prepare import prepare
from dpone_dagster.mssql.stages import stage_prefix
from dpone_dagster.ports.target import ServerRoom
from tests.mssql_orders import MssqlOrders
from tests.orders import Orders

MIB = 1 << 20


def said(diagnosis: Diagnosis) -> dict[str, str]:
    """Warnings by place; none of them is a finding or changes what to do next."""
    assert diagnosis.findings == ()
    assert diagnosis.next_action == "dpone backfill run MANIFEST --execute"
    return {warning.path: warning.problem for warning in diagnosis.warnings}


def test_clocks_that_are_apart_are_a_warning_on_both_sides(either: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(doctor(either.spec, either.connector)) == {}
    for minutes in (-2, 2):
        monkeypatch.setattr(surroundings, "now", lambda minutes=minutes: datetime.now(UTC) + timedelta(minutes=minutes))
        warned = said(doctor(either.spec, either.connector))
        assert set(warned) == {"the target's server", "the source's server"}
        assert all(" s apart or more" in problem for problem in warned.values()), warned


def test_a_connection_that_fails_is_a_finding_of_that_connection(orders: Orders) -> None:
    for source, target, code in (
        (orders.source_url.replace("/oltp_", "/no_such_"), orders.target_url, "LOGIN_REFUSED"),
        (orders.source_url, f"{orders.target_url}&no_such_parameter=1", "CONNECTION_INVALID"),
    ):
        broken = Orders(source, target, orders.manifest)
        (finding,) = doctor(broken.spec, broken.connector).findings
        ref = orders.spec.source_ref if code == "LOGIN_REFUSED" else orders.spec.sink_ref
        assert finding.path == f"connection {ref}"
        assert finding.problem.startswith(f"{code}: {ref}: ")


def test_what_the_server_does_not_tell_is_said_to_be_unknown(orders: Orders) -> None:
    assert doctor(orders.spec, orders.connector).notes[-1] == (
        "room on the target: not known for data, not known for its log"
    )


def test_a_target_without_room_for_a_second_table_is_a_warning(either: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    target = either.connector.target("test")
    kind = type(target)
    now = target.room(either.spec.target).now
    target.close()
    monkeypatch.setattr(kind, "room", lambda *_: ServerRoom(now, 300 * MIB, 200 * MIB, 10 * MIB))
    diagnosis = doctor(either.spec, either.connector)
    warned = said(diagnosis)
    assert "room for 200.0 MiB, and the live table takes 300.0 MiB" in warned["landing.orders"]
    assert warned["transaction log"] == "10.0 MiB of it are free"
    assert diagnosis.notes[-1] == "room on the target: 200.0 MiB for data, 10.0 MiB for its log"
    monkeypatch.setattr(kind, "room", lambda *_: ServerRoom(now, 300 * MIB, 400 * MIB, 2048 * MIB))
    assert said(doctor(either.spec, either.connector)) == {}


def test_stages_of_no_unfinished_campaign_are_named(mssql_orders: MssqlOrders) -> None:
    orders = mssql_orders
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    ours, nobodys = (f"{stage_prefix(key)}c0_e1_t0" for key in (orders.spec.run_key, "f" * 64))
    for name in (ours, nobodys):
        orders.on_target(f"CREATE TABLE landing.[{name}] (c0 int)")
    diagnosis = doctor(orders.spec, orders.connector)
    assert diagnosis.findings == ()
    assert [warning.path for warning in diagnosis.warnings] == [nobodys]
    assert diagnosis.next_action == "dpone backfill resume MANIFEST"

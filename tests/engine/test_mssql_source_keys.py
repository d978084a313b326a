"""Which columns of a SQL Server source can be cut into chunks."""

from __future__ import annotations

from typing import Any

import pytest

from dpone_dagster.campaign.contract import Column
from dpone_dagster.campaign.errors import KeyInvalid
from dpone_dagster.campaign.manifest import parse_manifest
from dpone_dagster.campaign.typetables import type_table
from dpone_dagster.engine.keys import prove_keys
from dpone_dagster.ports.tables import TargetTable
from tests.integration.mssql_source_cases import type_of
from tests.orders import make_manifest

DATES = {"kind": "date", "from": "2024-01-01", "to": "2024-01-31", "step": "1d"}
HOURS = {"kind": "timestamp", "from": "2024-01-01T00:00:00", "to": "2024-01-02T00:00:00", "step": "1h"}
NUMBERS = {"kind": "integer", "from": "0", "to": "99", "step": "10"}


def prove(kind: str, chunk: dict[str, Any]) -> None:
    manifest = make_manifest(4, 1)
    manifest["source"] = {**manifest["source"], "type": "mssql"}
    manifest["source"].pop("options")
    backfill = manifest["sink"]["strategy"]["backfill"]
    backfill.pop("publication")
    backfill |= {"chunk": {"column": "c", **chunk}, "inner_mode": "incremental_append"}
    manifest["sink"]["strategy"].pop("unique_key")
    spec = parse_manifest(manifest).to_spec()
    live = TargetTable(spec.target, 1, (), {}, "", (), (), False)
    prove_keys(spec, (Column("c", type_of(kind), False),), live, type_table(spec.source_type, spec.sink_type))


@pytest.mark.parametrize(
    ("chunk", "kinds"),
    [
        (DATES, ["date", "datetime2(7)", "datetimeoffset(7)", "datetime", "smalldatetime"]),
        (HOURS, ["datetime2(7)", "datetimeoffset(7)", "datetime", "smalldatetime"]),
        (NUMBERS, ["tinyint", "smallint", "int", "bigint", "decimal(18,0)", "numeric(9,0)"]),
    ],
)
def test_dates_times_and_whole_numbers_can(chunk: dict[str, Any], kinds: list[str]) -> None:
    for kind in kinds:
        prove(kind, chunk)


@pytest.mark.parametrize(
    ("kind", "chunk", "problem"),
    [
        ("uniqueidentifier", NUMBERS, "cannot be cut into chunks"),
        ("money", NUMBERS, "cannot be cut into chunks"),
        ("decimal(18,2)", NUMBERS, "cannot be cut into chunks"),
        ("time(7)", HOURS, "cannot be cut into chunks"),
        ("timestamp", HOURS, "cannot be cut into chunks"),  # a rowversion
        ("datetime", {**HOURS, "from": "2024-01-01T00:00:00.005"}, "fraction of a second"),
        ("smalldatetime", {**HOURS, "to": "2024-01-02T00:00:00.5"}, "fraction of a second"),
    ],
)
def test_others_cannot(kind: str, chunk: dict[str, Any], problem: str) -> None:
    with pytest.raises(KeyInvalid) as refused:
        prove(kind, chunk)
    (finding,) = refused.value.findings
    assert problem in finding.problem

"""Values that SQL Server takes for equal although they are not the same, which no stand-in shows."""

from __future__ import annotations

import pytest

from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.typetable_mssql import RULES
from dpone_dagster.mssql.digests import _KNOWN, Digester


@pytest.mark.parametrize(
    ("kind", "told_apart_by"),
    [
        ("varbinary", "DATALENGTH(t.[v])"),  # 0x01 = 0x0100
        ("nvarchar", "+ N'.')"),  # 'a' = 'a '
        ("char", "COLLATE Latin1_General_BIN2"),  # 'a' = 'A'
        ("datetimeoffset", "DATEPART(tz, t.[v])"),  # 12:00+01:00 = 11:00+00:00
        ("float", "CAST(t.[v] AS binary(8))"),  # 0.0 = -0.0
    ],
)
def test_equal_values_that_are_not_the_same_are_told_apart(kind: str, told_apart_by: str) -> None:
    assert told_apart_by in Digester(TableRef("landing", "orders"), {"v": kind}, False).exact("v", "v", "t")


def test_every_type_that_is_a_home_has_a_digest_that_is_tried_out() -> None:
    homes = {target for _, target in RULES}
    assert homes <= set(_KNOWN)

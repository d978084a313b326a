"""How the bulk connection is made: as encrypted as the session's own, never pooled, never repaired in silence."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from dpone_dagster.mssql.address import Address
from dpone_dagster.mssql.bulk import _connect, context_statement


def test_a_login_by_password_uses_the_client_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, Any]] = []
    monkeypatch.setitem(sys.modules, "mssql_py_core", SimpleNamespace(PyCoreConnection=given.append))
    _connect(Address.parse("mssql://ada:s3cret@db.example/dwh"), "dpone lane 0 bulk")
    (native,) = given
    assert native["application_name"] == "dpone lane 0 bulk"
    assert (native["encryption"], native["trust_server_certificate"]) == ("yes", "no")
    assert native["connect_retry_count"] == 0


def test_a_login_by_token_turns_pooling_off_before_it_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[str, Any]] = []
    stub = SimpleNamespace(
        pooling=lambda enabled: done.append(("pooling", enabled)),
        connect=lambda text, autocommit: done.append(("connect", text)),
        Error=Exception,
    )
    monkeypatch.setitem(sys.modules, "mssql_python", stub)
    _connect(Address.parse("mssql://db.example/dwh?authentication=ActiveDirectoryMsi"), "dpone lane 0 bulk")
    assert [what for what, _ in done] == ["pooling", "connect"]
    assert done[0][1] is False
    for keyword in ("ConnectRetryCount={0}", "Encrypt={yes}", "TrustServerCertificate={no}"):
        assert keyword in done[1][1]


def test_a_label_is_cut_to_what_a_session_can_show() -> None:
    assert context_statement("7777 chunk=1 epoch=2") == "SET CONTEXT_INFO 0x37373737206368756e6b3d312065706f63683d32"
    assert len(context_statement("é" * 200)) == len("SET CONTEXT_INFO 0x") + 256

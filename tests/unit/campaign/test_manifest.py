"""The manifest: what it resolves to, and every refusal with its code, path and advice."""

from __future__ import annotations

import copy
import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from dpone_dagster.campaign.contract import ColumnContract, ColumnOption
from dpone_dagster.campaign.errors import Finding, ManifestInvalid, TooManyChunks
from dpone_dagster.campaign.manifest import manifest_schema, parse_manifest
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.spec import IncrementPolicy, StatePolicy

BACKFILL = "sink.strategy.backfill"
XMIN = "source.options.xmin_execution"
LOCK = f"{BACKFILL}.state.require_distributed_lock"
MINIMAL: dict[str, Any] = {
    "source": {
        "type": "postgres",
        "connection_ref": "postgres_oltp",
        "table": {"schema": "public", "name": "orders"},
        "options": {"incremental_strategy": "xmin", "xmin_execution": {"mode": "initial", "handoff_id": "orders_v1"}},
    },
    "sink": {
        "type": "mssql",
        "connection_ref": "mssql_dwh",
        "table": {"schema": "landing", "name": "orders"},
        "strategy": {
            "mode": "backfill",
            "unique_key": ["id"],
            "backfill": {
                "inner_mode": "incremental_append",
                "state": {"backend": "audit_schema", "schema": "system", "require_distributed_lock": True},
                "publication": {"mode": "shadow_swap"},
                "chunk": {"column": "id", "kind": "uuid", "buckets": 512},
            },
        },
    },
}
REMOVED = object()
UNKNOWN = "sink.strategy.unique_ky"


def changed(**changes: Any) -> dict[str, Any]:
    """The minimal manifest with dotted paths set (`__` for a dot) or removed."""
    manifest = copy.deepcopy(MINIMAL)
    for dotted, value in changes.items():
        *parents, last = dotted.replace("BACKFILL", "sink__strategy__backfill").split("__")
        block = manifest
        for parent in parents:
            block = block.setdefault(parent, {})
        if value is REMOVED:
            del block[last]
        else:
            block[last] = value
    return manifest


def refused(manifest: object) -> ManifestInvalid:
    with pytest.raises(ManifestInvalid) as caught:
        parse_manifest(manifest)
    assert caught.value.code == "MANIFEST_INVALID"
    assert caught.value.exit_code == 2
    return caught.value


def only_finding(manifest: object) -> Finding:
    (finding,) = refused(manifest).findings
    return finding


# ---------------------------------------------------------------- what it resolves to


def test_a_minimal_manifest_resolves_every_default() -> None:
    spec = parse_manifest(MINIMAL).to_spec()
    assert spec.dataset == "orders"
    assert (spec.source, spec.target) == (TableRef("public", "orders"), TableRef("landing", "orders"))
    assert spec.state == StatePolicy("system", "mssql_dwh", "auto")
    assert (spec.lanes, spec.max_partitions, spec.plan.count) == (1, 2_000, 512)
    assert (spec.retry_policy, spec.on_chunk_failure, spec.drain_timeout_seconds) == ("non_committed", "stop", 300)
    assert spec.publication.artifact_scope == "stable"
    assert spec.increment == IncrementPolicy()
    assert spec.handoff_id == "orders_v1"
    assert spec.source_columns is None
    assert not spec.allow_empty


def test_everything_that_is_written_arrives() -> None:
    manifest = changed(
        name="orders_history",
        source__columns=["id", "amount", "at"],
        sink__columns={"amount": {"on_bad_value": None}, "at": {"representation": "text"}},
        sink__strategy__unique_key=["id", "at"],
        sink__strategy__only_new_rows=False,
        BACKFILL__backfill_id="orders_initial_typed_v1",
        BACKFILL__parallel_workers=4,
        BACKFILL__retry_policy="failed_only",
        BACKFILL__on_chunk_failure="continue",
        BACKFILL__drain_timeout_seconds=60,
        BACKFILL__lease_ttl_minutes=60,
        BACKFILL__max_chunks=600,
        BACKFILL__verification="digest",
        BACKFILL__allow_empty=True,
        BACKFILL__publication={"mode": "shadow_swap", "retain_backup": True, "artifact_scope": "campaign"},
        state={
            "type": "mssql",
            "connection_ref": "mssql_state",
            "atomicity": "target_atomic",
            "provisioning": "external",
        },
        dagster={
            "lanes": 2,
            "max_partitions": 100,
            "mapping": {"mode": "internal"},
            "incremental": {
                "cron": "30 5 * * mon-fri",
                "timezone": "Europe/Paris",
                "reconcile_deletes": "always",
                "max_delete_fraction": 0.5,
                "max_delete_rows": 1000,
                "reconcile_cron": "0 4 * * sun",
                "start": "after_handoff",
            },
            "owners": ["team:data", "a@example.org"],
            "tags": {"tier": "gold"},
        },
    )
    parsed = parse_manifest(manifest)
    spec = parsed.to_spec()
    assert (spec.dataset, spec.backfill_id) == ("orders_history", "orders_initial_typed_v1")
    assert spec.source_columns == ("id", "amount", "at")
    assert spec.column_options == {"amount": ColumnOption("null"), "at": ColumnOption("fail", "text")}
    assert spec.unique_key == ("id", "at")
    assert (spec.lanes, spec.max_partitions) == (2, 100)
    assert (spec.retry_policy, spec.on_chunk_failure, spec.drain_timeout_seconds) == ("failed_only", "continue", 60)
    assert spec.allow_empty
    assert spec.publication.artifact_scope == "campaign"
    assert spec.state == StatePolicy("system", "mssql_state", "external")
    assert spec.increment == IncrementPolicy(
        "30 5 * * mon-fri", "Europe/Paris", "after_handoff", "always", 0.5, 1000, "0 4 * * sun"
    )
    assert (spec.owners, spec.tags) == (("team:data", "a@example.org"), {"tier": "gold"})
    (note,) = parsed.notes
    assert note.path == f"{BACKFILL}.lease_ttl_minutes"
    assert "90 s" in note.problem
    assert "30 s" in note.problem


def test_connection_id_is_an_alias() -> None:
    manifest = changed(source__connection_ref=REMOVED, source__connection_id="postgres_oltp")
    assert parse_manifest(manifest).to_spec() == parse_manifest(MINIMAL).to_spec()


def test_the_chunk_kind_is_inferred_and_yaml_values_become_text() -> None:
    chunk = {"column": "id", "from": date(2024, 1, 31), "to": date(2024, 12, 31), "step": "1mo"}
    assert parse_manifest(changed(BACKFILL__chunk=chunk)).to_spec().chunk.kind == "date"
    chunk = {"column": "id", "from": 1, "to": 1_000, "step": 100}
    assert parse_manifest(changed(BACKFILL__chunk=chunk)).to_spec().plan.count == 10


def test_an_immutable_chunk_column_may_lie_outside_the_key() -> None:
    chunk = {"column": "day", "from": "2024-01-01", "to": "2024-12-31", "step": "1mo", "immutable": True}
    assert parse_manifest(changed(BACKFILL__chunk=chunk)).to_spec().chunk.immutable


def test_without_xmin_there_is_no_handoff() -> None:
    assert parse_manifest(changed(source__options=REMOVED)).to_spec().handoff_id is None


# ---------------------------------------------------------------- publication `direct`, which is the default


def direct(**changes: Any) -> dict[str, Any]:
    """The minimal manifest without a publication block, by day and without a key."""
    chunk = {"column": "day", "from": "2024-01-01", "to": "2024-12-31", "step": "1d"}
    less = {"source__options": REMOVED, "BACKFILL__publication": REMOVED, "sink__strategy__unique_key": REMOVED}
    return changed(**{**less, "BACKFILL__inner_mode": "partition_replace", "BACKFILL__chunk": chunk, **changes})


def test_without_a_publication_block_chunks_go_straight_into_the_live_table() -> None:
    spec = parse_manifest(direct()).to_spec()
    assert (spec.publication.mode, spec.inner_mode, spec.direct) == ("direct", "partition_replace", True)
    assert (spec.written, spec.unique_key) == (spec.target, ())
    live = spec.live_slice(spec.plan.chunk(59))
    assert live is not None
    assert (live.action, live.column, str(live.chunk)) == ("replace", "day", "[2024-02-29, 2024-03-01)")
    assert parse_manifest(MINIMAL).to_spec().live_slice(spec.plan.chunk(0)) is None


@pytest.mark.parametrize(
    ("mode", "action"),
    [
        ("incremental_append", "append"),
        ("incremental_merge", "merge"),
        ("replace", "replace"),
        ("partition_replace", "replace"),
    ],
)
def test_every_inner_mode_says_what_becomes_of_the_slice(mode: str, action: str) -> None:
    spec = parse_manifest(direct(BACKFILL__inner_mode=mode, sink__strategy__unique_key=["id"])).to_spec()
    live = spec.live_slice(spec.plan.chunk(0))
    assert live is not None
    assert live.action == action


def test_a_full_refresh_has_one_chunk() -> None:
    one = {"column": "id", "kind": "uuid", "buckets": 1}
    spec = parse_manifest(direct(BACKFILL__inner_mode="full_refresh", BACKFILL__chunk=one)).to_spec()
    assert (spec.plan.count, spec.inner_mode) == (1, "full_refresh")


def test_what_is_loaded_in_another_inner_mode_is_another_campaign() -> None:
    contract = ColumnContract((), ())
    hashes = {
        parse_manifest(direct(BACKFILL__inner_mode=mode)).to_spec().config_hash(contract)
        for mode in ("incremental_append", "replace", "partition_replace")
    }
    assert len(hashes) == 3


def test_a_campaign_that_is_compared_otherwise_is_another_one() -> None:
    contract = ColumnContract((), ())
    plain, counted, digested = (
        parse_manifest(direct(**change)).to_spec().config_hash(contract)
        for change in ({}, {"BACKFILL__verification": "row_count"}, {"BACKFILL__verification": "digest"})
    )
    assert plain == counted != digested


@pytest.mark.parametrize(
    ("change", "path", "advice"),
    [
        ({"BACKFILL__inner_mode": "incremental_merge"}, "sink.strategy.unique_key", "unique_key: [id]"),
        ({"BACKFILL__inner_mode": "full_refresh"}, f"{BACKFILL}.inner_mode", "`partition_replace`"),
        ({"BACKFILL__publication": {"retain_backup": True}}, f"{BACKFILL}.publication.retain_backup", "leave it out"),
        ({"BACKFILL__publication": {"artifact_scope": "campaign"}}, f"{BACKFILL}.publication.artifact_scope", "leave"),
        ({"source__options": MINIMAL["source"]["options"]}, XMIN, "without a handoff"),
        ({"sink__strategy__only_new_rows": True}, "sink.strategy.only_new_rows", "only_new_rows: false"),
        ({"sink__strategy__unique_key": []}, "sink.strategy.unique_key", "unique_key: [id]"),
        ({"sink__strategy__unique_ky": ["id"], "BACKFILL__inner_mode": "incremental_merge"}, UNKNOWN, "`unique_key`"),
    ],
)
def test_what_does_not_go_with_direct_is_refused(change: dict[str, Any], path: str, advice: str) -> None:
    finding = only_finding(direct(**change))
    assert finding.path == path
    assert advice in finding.advice


# ---------------------------------------------------------------- a source on SQL Server


def from_mssql(**changes: Any) -> dict[str, Any]:
    return direct(source__type="mssql", source__connection_ref="mssql_oltp", **changes)


def test_a_source_on_sql_server_goes_straight_into_the_live_table() -> None:
    spec = parse_manifest(from_mssql()).to_spec()
    assert (spec.source_type, spec.source_ref, spec.direct) == ("mssql", "mssql_oltp", True)
    assert parse_manifest(direct()).to_spec().source_type == "postgres"


@pytest.mark.parametrize(
    ("change", "path", "advice"),
    [
        ({"BACKFILL__publication": {"mode": "shadow_swap"}}, f"{BACKFILL}.publication.mode", "{mode: direct}"),
        ({"source__options": MINIMAL["source"]["options"]}, "source.options", "leave it out"),
        ({"BACKFILL__chunk": {"column": "id", "kind": "uuid", "buckets": 4}}, f"{BACKFILL}.chunk.kind", "by a date"),
        ({"BACKFILL__chunk": {"column": "id", "buckets": 4}}, f"{BACKFILL}.chunk.kind", "by a date"),
    ],
)
def test_what_only_postgresql_can_be_asked_for_is_refused(change: dict[str, Any], path: str, advice: str) -> None:
    finding = only_finding(from_mssql(**change))
    assert (finding.path, advice in finding.advice) == (path, True)


def test_nothing_else_is_said_of_a_swap_from_sql_server() -> None:
    options = {**MINIMAL["source"]["options"]}
    swap = {"BACKFILL__inner_mode": "replace", "BACKFILL__publication": {"mode": "shadow_swap"}}
    assert only_finding(from_mssql(source__options=options, **swap)).path == f"{BACKFILL}.publication.mode"


# ---------------------------------------------------------------- state in a file


def in_file(**changes: Any) -> dict[str, Any]:
    return direct(**{"BACKFILL__state": {"backend": "local_file"}, REPLACED: "replace", **changes})


REPLACED = "BACKFILL__inner_mode"


def test_a_state_file_needs_no_schema_and_has_a_folder() -> None:
    state = parse_manifest(in_file()).to_spec().state
    assert (state.backend, state.schema, state.folder, state.in_file) == ("local_file", "", None, True)
    assert parse_manifest(in_file(BACKFILL__state_dir="here")).to_spec().state.folder == Path("here")
    lock = {"backend": "local_file", "require_distributed_lock": False}
    assert parse_manifest(in_file(BACKFILL__state=lock)).to_spec().state == state


@pytest.mark.parametrize(
    ("change", "path", "advice"),
    [
        ({"BACKFILL__state": {"backend": "local_file", "require_distributed_lock": True}}, LOCK, "leave it out"),
        ({"BACKFILL__state": {"backend": "local_file", "schema": "system"}}, f"{BACKFILL}.state.schema", "leave it"),
        ({REPLACED: "incremental_append"}, f"{BACKFILL}.inner_mode", "partition_replace"),
        ({"BACKFILL__parallel_workers": 2}, f"{BACKFILL}.parallel_workers", "leave it out"),
        (
            {"state": {"type": "mssql", "connection_ref": "mssql_dwh", "atomicity": "target_atomic"}},
            "state",
            "leave it out",
        ),
    ],
)
def test_what_does_not_go_with_a_state_file_is_refused(change: dict[str, Any], path: str, advice: str) -> None:
    finding = only_finding(in_file(**change))
    assert finding.path == path
    assert advice in finding.advice
    assert "audit_schema" in finding.advice


# ---------------------------------------------------------------- refusals of the publication contract


@pytest.mark.parametrize(
    ("change", "path", "advice"),
    [
        ({"BACKFILL__inner_mode": "incremental_merge"}, f"{BACKFILL}.inner_mode", "inner_mode: incremental_append"),
        ({"BACKFILL__inner_mode": REMOVED}, f"{BACKFILL}.inner_mode", "`partition_replace`"),
        ({"BACKFILL__inner_mode": "append"}, f"{BACKFILL}.inner_mode", "`partition_replace`"),
        ({"sink__strategy__only_new_rows": True}, "sink.strategy.only_new_rows", "only_new_rows: false"),
        ({"sink__strategy__unique_key": []}, "sink.strategy.unique_key", "unique_key: [id]"),
        ({"sink__strategy__unique_key": REMOVED}, "sink.strategy.unique_key", "unique_key: [id]"),
        ({"BACKFILL__state__backend": "sqlite"}, f"{BACKFILL}.state.backend", "backend: audit_schema"),
        ({"BACKFILL__state": {"backend": "local_file"}}, f"{BACKFILL}.publication.mode", "mode: direct"),
        ({"BACKFILL__state__schema": REMOVED}, f"{BACKFILL}.state.schema", "such as `system`"),
        ({"BACKFILL__state": REMOVED}, f"{BACKFILL}.state", "backend: audit_schema"),
        ({"BACKFILL__state__require_distributed_lock": False}, LOCK, "require_distributed_lock: true"),
        ({"BACKFILL__state__require_distributed_lock": 1}, LOCK, "require_distributed_lock: true"),
        ({"BACKFILL__state__require_distributed_lock": REMOVED}, LOCK, "require_distributed_lock: true"),
        (
            {"state": {"type": "mssql", "connection_ref": "mssql_dwh", "atomicity": "best_effort"}},
            "state.atomicity",
            "atomicity: target_atomic",
        ),
        (
            {"BACKFILL__publication__retain_backup": False},
            f"{BACKFILL}.publication.retain_backup",
            "retain_backup: true",
        ),
        ({"BACKFILL__publication__mode": "rename"}, f"{BACKFILL}.publication.mode", "`mode: shadow_swap`"),
        ({"BACKFILL__publication__mode": "direct"}, XMIN, "mode: shadow_swap"),
        ({"BACKFILL__publication": REMOVED}, XMIN, "mode: shadow_swap"),
        ({"BACKFILL__verification": "rows"}, f"{BACKFILL}.verification", "verification: row_count"),
        ({"sink__strategy__mode": "incremental_merge"}, "sink.strategy.mode", "dagster.incremental"),
        ({"source__type": "mysql"}, "source.type", "type: postgres"),
        ({"sink__type": "clickhouse"}, "sink.type", "type: mssql"),
        ({"dagster__mapping__mode": "all"}, "dagster.mapping.mode", "`internal`, `visible` or `summary`"),
        ({"dagster__mapping__pool": ""}, "dagster.mapping.pool", "such as dpone_backfill"),
        ({"dagster__mapping__max_items": 201}, "dagster.mapping.max_items", "from 1 to 200"),
        ({"dagster__mapping__max_active": 65}, "dagster.mapping.max_active", "from 1 to 64"),
        (
            {"source__options__xmin_execution__mode": "incremental"},
            "source.options.xmin_execution.mode",
            "mode: initial",
        ),
        ({"BACKFILL__parallel_workers": 65}, f"{BACKFILL}.parallel_workers", "from 1 to 64"),
        ({"BACKFILL__parallel_workers": "4"}, f"{BACKFILL}.parallel_workers", "from 1 to 64"),
        ({"BACKFILL__max_chunks": 1_000_001}, f"{BACKFILL}.max_chunks", "from 1 to 1000000"),
        ({"BACKFILL__lease_ttl_minutes": 0}, f"{BACKFILL}.lease_ttl_minutes", "at least 1"),
        ({"BACKFILL__retry_policy": "failed"}, f"{BACKFILL}.retry_policy", "`non_committed` or `failed_only`"),
        ({"BACKFILL__backfill_id": 20240101}, f"{BACKFILL}.backfill_id", "quotes"),
        ({"BACKFILL__state__schema": "a;b"}, f"{BACKFILL}.state.schema", "letters, digits and `_`"),
        ({"BACKFILL__chunk__kind": "hash"}, f"{BACKFILL}.chunk.kind", "`date`, `timestamp`, `integer` or `uuid`"),
        ({"BACKFILL__chunk": {"column": "id"}}, f"{BACKFILL}.chunk.from", "kind: uuid"),
        ({"dagster__incremental__cron": "30 25 * * *"}, "dagster.incremental.cron", "hour `25` is not within 0-23"),
        ({"dagster__incremental__timezone": "Mars/Olympus"}, "dagster.incremental.timezone", "Europe/Paris"),
        ({"dagster__incremental__max_delete_fraction": 1.5}, "dagster.incremental.max_delete_fraction", "from 0 to 1"),
        ({"dagster__incremental__delete_mode": "no"}, "dagster.incremental.delete_mode", "`hard` or `soft`"),
        (
            {"dagster__incremental__delete_mode": "soft"},
            "dagster.incremental.soft_delete_column",
            "nullable timestamp or boolean",
        ),
        ({"dagster__incremental__soft_delete_column": "gone"}, "dagster.incremental.delete_mode", "write `soft`"),
        (
            {
                "source__columns": ["id", "gone"],
                "dagster__incremental": {"delete_mode": "soft", "soft_delete_column": "gone"},
            },
            "dagster.incremental.soft_delete_column",
            "name another column",
        ),
        ({"dagster__incremental__reconcile_cron": "daily"}, "dagster.incremental.reconcile_cron", "five"),
        ({"dagster__owners": ["bob"]}, "dagster.owners.0", "team:name"),
        ({"dagster__tags": {"a b": "c"}}, "dagster.tags.a b", "letters, digits"),
        ({"sink__columns": {"x": {"on_bad_value": "skip"}}}, "sink.columns.x.on_bad_value", "`fail` or `null`"),
        ({"sink__table": "orders"}, "sink.table", "a mapping"),
        ({"sink__connection_ref": "mssql-dwh"}, "sink.connection_ref", "DPONE_CONNECTION_<REF>"),
        ({"source__table__name": 7}, "source.table.name", "quotes"),
    ],
)
def test_a_value_outside_the_contract_is_refused(change: dict[str, Any], path: str, advice: str) -> None:
    finding = only_finding(changed(**change))
    assert finding.path == path
    assert finding.problem
    assert advice in finding.advice


@pytest.mark.parametrize(("kind", "reason"), [("clickhouse", "no xmin"), ("kafka", "no table to cut")])
def test_sources_that_will_come_are_refused_by_name(kind: str, reason: str) -> None:
    finding = only_finding(changed(source__type=kind))
    assert finding.path == "source.type"
    assert kind in finding.problem
    assert reason in finding.problem
    assert "type: postgres" in finding.advice


@pytest.mark.parametrize(
    ("change", "path", "advice"),
    [
        ({"BACKFILL__chunk__bucket": 4}, f"{BACKFILL}.chunk.bucket", "did you mean `buckets`?"),
        (
            {"sink__columns": {"x": {"on_bad_valu": "fail"}}},
            "sink.columns.x.on_bad_valu",
            "did you mean `on_bad_value`?",
        ),
        ({"BACKFILL__zzz": 4}, f"{BACKFILL}.zzz", "allowed: inner_mode, publication, state, chunk"),
        ({"source__connection_id": "other"}, "source.connection_id", "did you mean `connection_ref`?"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_one(change: dict[str, Any], path: str, advice: str) -> None:
    finding = only_finding(changed(**change))
    assert (finding.path, finding.problem) == (path, "unknown key")
    assert finding.advice.startswith(advice)


def test_a_misspelt_required_key_is_one_finding() -> None:
    finding = only_finding(changed(BACKFILL__inner_mode=REMOVED, BACKFILL__innermode="incremental_append"))
    assert finding.advice == "did you mean `inner_mode`?"


# ---------------------------------------------------------------- refusals between keys


@pytest.mark.parametrize(
    ("change", "path", "advice"),
    [
        ({"BACKFILL__chunk__column": "day"}, f"{BACKFILL}.chunk.column", "immutable: true"),
        ({"sink__strategy__unique_key": ["id", "id"]}, "sink.strategy.unique_key", "once"),
        ({"source__columns": ["id", "id"]}, "source.columns", "once"),
        ({"source__columns": ["amount"]}, "sink.strategy.unique_key", "source.columns"),
        ({"source__columns": ["id", "amount"], "sink__columns": {"amont": {}}}, "sink.columns.amont", "`amount`"),
        (
            {"state": {"type": "postgres", "connection_ref": "x", "atomicity": "target_atomic"}},
            "state.type",
            "the sink's database",
        ),
        (
            {"sink__type": "postgres", "sink__connection_ref": "Postgres_OLTP", "sink__table__schema": "public"},
            "sink.table",
            "another table",
        ),
        ({"dagster__lanes": 2}, "dagster.lanes", "only lower"),
        ({"dagster__lanes": 5, "BACKFILL__parallel_workers": 4}, "dagster.lanes", "only lower"),
        ({"source__options": {"incremental_strategy": "xmin"}}, "source.options.xmin_execution", "handoff_id"),
        (
            {"source__options": {"xmin_execution": {"mode": "initial", "handoff_id": "a"}}},
            "source.options.incremental_strategy",
            "incremental_strategy: xmin",
        ),
        ({"source__options": REMOVED, "dagster__incremental": {}}, "dagster.incremental", "xmin_execution"),
        ({"name": "my-orders"}, "name", "letters, digits and `_`"),
        ({"sink__table__name": "bestellung ä"}, "name", "letters, digits and `_`"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(change: dict[str, Any], path: str, advice: str) -> None:
    finding = only_finding(changed(**change))
    assert finding.path == path
    assert finding.problem
    assert advice in finding.advice


def test_tokens_are_refused_where_they_stand_and_nothing_else_is_said_about_them() -> None:
    chunk = {"column": "id", "from": "{{ data_interval_start }}", "to": "{{ data_interval_end }}", "step": "1d"}
    findings = refused(changed(BACKFILL__chunk=chunk)).findings
    assert [finding.path for finding in findings] == [f"{BACKFILL}.chunk.from", f"{BACKFILL}.chunk.to"]
    assert all("write the value itself" in finding.advice for finding in findings)


def test_keys_of_another_host_are_refused_with_what_takes_their_place() -> None:
    blocks = {
        "airflow": {"execution": {"outlets": ["x"], "catchup": True}, "max_active_runs": 1},
        "gitops": {"airflow": {"mapping": {"mode": "summary", "pool": "p"}}},
    }
    assert {finding.path: finding.advice for finding in refused(changed(**blocks)).findings} == {
        "airflow.execution.outlets": "let downstream assets depend on `published_target`",
        "airflow.execution.catchup": "leave it out: *Materialize missing*, or `dpone backfill resume`, catches up on "
        "what is missing",
        "airflow.max_active_runs": "use `dagster.mapping.max_active`",
        "gitops.airflow.mapping": "use `dagster.mapping`",
    }
    assert only_finding(changed(airflow={"dag": "x"})).path == "airflow"


def test_all_findings_come_at_once() -> None:
    manifest = changed(
        BACKFILL__inner_mode="replace",
        BACKFILL__chunk__column="day",
        BACKFILL__chunk__bukets=3,
        name="a b",
        dagster={"lanes": 9},
    )
    assert {finding.path for finding in refused(manifest).findings} == {
        f"{BACKFILL}.inner_mode",
        f"{BACKFILL}.chunk.column",
        f"{BACKFILL}.chunk.bukets",
        "name",
        "dagster.lanes",
    }


@pytest.mark.parametrize("data", [None, [], "text", 5])
def test_a_manifest_is_a_mapping(data: object) -> None:
    assert "not a mapping" in refused(data).message


def test_an_empty_manifest_names_what_it_needs() -> None:
    assert {(f.path, f.problem) for f in refused({}).findings} == {("source", "is missing"), ("sink", "is missing")}


def test_a_manifest_that_holds_itself_is_refused_not_followed() -> None:
    manifest = changed()
    manifest["dagster"] = {"incremental": manifest}
    assert refused(manifest).findings


def test_more_chunks_than_allowed_are_refused_by_count() -> None:
    chunk = {"column": "id", "from": -(2**63), "to": 2**63 - 1, "step": 1}
    with pytest.raises(TooManyChunks) as caught:
        parse_manifest(changed(BACKFILL__chunk=chunk)).to_spec()
    assert "backfill would produce 18446744073709551616 chunks, above max_chunks 10000" in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_secret_in_the_wrong_place_is_not_repeated() -> None:
    url = "postgresql://loader:hunter2@host/db"
    manifest = changed(source__connection_ref=url, sink__pasword="hunter2", source__type=url, state={"type": url})
    error = refused(manifest)
    assert len(error.findings) >= 4
    assert "hunter2" not in str(error)
    assert "hunter2" not in json.dumps(error.as_dict())
    assert error.__cause__ is None
    assert error.__context__ is None


# ---------------------------------------------------------------- for editors


def test_the_json_schema_knows_every_key_and_its_values() -> None:
    schema = manifest_schema()
    definitions = schema["$defs"]
    assert schema["additionalProperties"] is False
    assert set(definitions["ChunkBlock"]["properties"]) == {
        "column",
        "kind",
        "from",
        "to",
        "step",
        "buckets",
        "immutable",
    }
    assert "partition_replace" in definitions["BackfillBlock"]["properties"]["inner_mode"]["enum"]
    assert definitions["PublicationBlock"]["properties"]["mode"]["default"] == "direct"
    assert "connection_id" in definitions["SourceBlock"]["properties"]
    assert definitions["ColumnBlock"]["properties"]["on_bad_value"]["enum"] == ["fail", "null", None]
    json.dumps(schema)

"""Keys of another host, each with what takes its place in Dagster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dpone_dagster.campaign.errors import Finding

HOST_KEYS = ("airflow", "gitops")
_DEEPEST = 32
_LEAVE_OUT = "leave it out: what belongs to the host stands in the `dagster` block"
_GROUPS: tuple[tuple[str, str], ...] = (
    ("mapping", "use `dagster.mapping`"),
    ("outlets", "let downstream assets depend on `published_target`"),
    ("inlets", "leave it out: let a sensor of Dagster start the campaign's job when its source is ready"),
    ("schedule schedule_interval timetable", "use `dagster.incremental.cron`"),
    ("timezone", "use `dagster.incremental.timezone`"),
    ("start_date end_date", "use `from` and `to` of `sink.strategy.backfill.chunk`"),
    ("catchup", "leave it out: *Materialize missing*, or `dpone backfill resume`, catches up on what is missing"),
    ("params", "write the values themselves, or build the manifest in Python: examples/parameterised"),
    ("dag_id task_id", "use `name`: assets and jobs are named after it"),
    ("owner owners", "use `dagster.owners`"),
    ("tags", "use `dagster.tags`"),
    ("pool", "use `dagster.mapping.pool`"),
    ("pool_slots", "leave it out: each lane takes one slot of its pool"),
    (
        "max_active_runs max_active_tasks max_active_tis_per_dag max_active_tis_per_dagrun concurrency",
        "use `dagster.mapping.max_active`",
    ),
    (
        "retries retry_delay retry_exponential_backoff max_retry_delay",
        "leave it out: `dpone backfill resume` continues from the receipts",
    ),
    ("execution_timeout dagrun_timeout sla", "use `run_monitoring.max_runtime_seconds` in dagster.yaml"),
    (
        "email email_on_failure email_on_retry on_failure_callback on_success_callback on_retry_callback "
        "sla_miss_callback",
        "use a run status sensor of Dagster",
    ),
    (
        "trigger_rule depends_on_past wait_for_downstream",
        "leave it out: every asset proves in the database that the one before it is done",
    ),
    (
        "executor executor_config queue image namespace resources container_resources env_vars service_account_name",
        "leave it to the deployment: DPONE_EXECUTOR and the values of Dagster's Helm chart",
    ),
    ("priority_weight weight_rule", "use the run tag `dagster/priority`"),
    ("conn_id connection_id connections", "use `connection_ref`, and DPONE_CONNECTION_<REF> in the environment"),
    ("xcom xcom_push do_xcom_push", "leave it out: the numbers are metadata of the assets"),
)
_HINTS: Mapping[str, str] = {key: hint for keys, hint in _GROUPS for key in keys.split()}


def host_findings(data: Mapping[Any, Any]) -> list[Finding]:
    """Keys of another host, each with what takes its place in Dagster.

    Args:
        data: The whole manifest.
    """
    findings: list[Finding] = []
    for key in HOST_KEYS:
        if key in data:
            known = list(_hinted(data[key], key, 0)) or [(key, _LEAVE_OUT)]
            findings += [Finding(path, "belongs to another host", advice) for path, advice in known]
    return findings


def _hinted(value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    """Keys with a hint of their own; below one nothing more is said."""
    if depth >= _DEEPEST or not isinstance(value, Mapping):
        return
    for key, inner in value.items():
        if key in _HINTS:
            yield f"{path}.{key}", _HINTS[key]
        else:
            yield from _hinted(inner, f"{path}.{key}", depth + 1)

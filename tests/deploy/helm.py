"""What Dagster's Helm chart makes of our values, as far as the tests need it: no Helm and no chart can be had here.

Written after the templates in helm/dagster of dagster-io/dagster: configmap-instance, _run-launcher, _concurrency.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
NAMESPACE = "dagster"
_MONITORING = {
    "enabled": "enabled",
    "startTimeoutSeconds": "start_timeout_seconds",
    "cancelTimeoutSeconds": "cancel_timeout_seconds",
    "maxResumeRunAttempts": "max_resume_run_attempts",
    "pollIntervalSeconds": "poll_interval_seconds",
    "freeSlotsAfterRunEndSeconds": "free_slots_after_run_end_seconds",
}
_RETRIES = {
    "enabled": "enabled",
    "maxRetries": "max_retries",
    "retryOnAssetOrOpFailure": "retry_on_asset_or_op_failure",
}
_POOLS = {"granularity": "granularity", "defaultLimit": "default_limit"}
_LAUNCHER = {
    "imagePullPolicy": "image_pull_policy",
    "labels": "labels",
    "resources": "resources",
    "securityContext": "security_context",
}
_RAW = {
    "containerConfig": "container_config",
    "podSpecConfig": "pod_spec_config",
    "podTemplateSpecMetadata": "pod_template_spec_metadata",
    "jobSpecConfig": "job_spec_config",
}


def values() -> dict[str, Any]:
    """Our values."""
    found: dict[str, Any] = yaml.safe_load((FOLDER / "values.yaml").read_text())
    return found


def _renamed(found: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """Under Dagster's names; a key that the chart does not have is an error."""
    return {names[key]: value for key, value in found.items()}


def launcher_config(chosen: dict[str, Any]) -> dict[str, Any]:
    """The run launcher's configuration in dagster.yaml."""
    config = dict(chosen["runLauncher"]["config"]["k8sRunLauncher"])
    raw = _renamed(config.pop("runK8sConfig"), _RAW)
    return {
        **_renamed(config, _LAUNCHER),
        "run_k8s_config": raw,
        "load_incluster_config": True,
        "job_namespace": NAMESPACE,
        "service_account_name": "dagster",
        "dagster_home": "/opt/dagster/dagster_home",
        "instance_config_map": "dagster-instance",
        "postgres_password_secret": chosen["global"]["postgresqlSecretName"],
    }


def instance_settings(chosen: dict[str, Any]) -> dict[str, Any]:
    """dagster.yaml, but for its storages."""
    return {
        "run_launcher": {
            "module": "dagster_k8s",
            "class": chosen["runLauncher"]["type"],
            "config": launcher_config(chosen),
        },
        "run_coordinator": {"module": "dagster.core.run_coordinator", "class": "QueuedRunCoordinator", "config": {}},
        "run_monitoring": _renamed(chosen["dagsterDaemon"]["runMonitoring"], _MONITORING),
        "telemetry": chosen["telemetry"],
        "python_logs": {"python_log_level": chosen["pythonLogs"]["pythonLogLevel"]},
        "run_retries": _renamed(chosen["dagsterDaemon"]["runRetries"], _RETRIES),
        "concurrency": {"pools": _renamed(chosen["concurrency"]["pools"], _POOLS)},
    }


def code_server(chosen: dict[str, Any]) -> dict[str, Any]:
    """The code server's Deployment, of the parts that our values bring."""
    (code,) = chosen["dagster-user-deployments"]["deployments"]
    return _deployment(f"dagster-dpone-{code['name']}", code, code["env"])


def deployments(chosen: dict[str, Any]) -> list[dict[str, Any]]:
    """Each Deployment."""
    web, daemon = chosen["dagsterWebserver"], chosen["dagsterDaemon"]
    return [_deployment("dagster-webserver", web, []), _deployment("dagster-daemon", daemon, []), code_server(chosen)]


def _deployment(name: str, part: dict[str, Any], environment: list[dict[str, Any]]) -> dict[str, Any]:
    container = {
        "name": "dagster",
        "image": f"{part['image']['repository']}:{part['image']['tag']}",
        "imagePullPolicy": part["image"]["pullPolicy"],
        "securityContext": part["securityContext"],
        "resources": part["resources"],
        "env": environment,
    }
    labels = {"app.kubernetes.io/name": "dagster", **part["labels"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"securityContext": part["podSecurityContext"], "containers": [container]},
            },
        },
    }

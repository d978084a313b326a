"""The Kubernetes files: valid by Kubernetes' own schemas, and a campaign by the very Jobs that come of them.

No cluster is at hand: tests/deploy/cluster.py runs each Job as a process. UNVERIFIED in a cluster.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import psycopg
import pytest
import yaml
from dagster import AssetKey, DagsterEventType, DagsterInstance, DagsterRun, DagsterRunStatus
from dagster._core.code_pointer import CustomPointer, ModuleCodePointer
from dagster._core.definitions.reconstruct import ReconstructableRepository
from dagster._core.launcher import LaunchRunContext
from dagster._core.storage.tags import WILL_RETRY_TAG

import dpone_dagster
from tests.dagster import project as code_location
from tests.deploy import helm
from tests.deploy.cluster import Cluster
from tests.orders import Orders
from tests.waiting import PATIENCE_SECONDS, within

SCHEMAS = "1.31"
IMAGE = "registry.example/dpone-dagster:0.1.0"
EVICTED, LOST = (f"orders__shadow.orders_lane[{lane}]" for lane in range(2))
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'public.orders'::regclass"
PREPARED = "SELECT to_regclass('system.__dpone__backfill_chunks') IS NOT NULL"
STATES = "SELECT state, count(*) FROM system.__dpone__backfill_chunks GROUP BY 1"
RECEIPTS = "SELECT count(*), count(DISTINCT chunk_index) FROM system.__dpone__chunk_receipts"


def manifests() -> list[dict[str, Any]]:
    files = (path for path in helm.FOLDER.glob("*.yaml") if path.name != "values.yaml")
    return [found for path in sorted(files) for found in yaml.safe_load_all(path.read_text())]


@pytest.mark.parametrize(
    "manifest", [*manifests(), *helm.deployments(helm.values())], ids=lambda found: found["metadata"]["name"]
)
def test_every_manifest_is_valid(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, SCHEMAS, strict=True)


def test_policies_and_budget_select_the_labels_that_the_pods_have() -> None:
    chosen = helm.values()
    roles = {found["metadata"]["labels"]["dpone/role"] for found in helm.deployments(chosen)}
    roles.add(helm.launcher_config(chosen)["labels"]["dpone/role"])
    assert roles == {"webserver", "daemon", "code", "worker"}
    assert set(_named_roles(manifests())) == roles


def _named_roles(found: object) -> Iterator[str]:
    if isinstance(found, list):
        for entry in found:
            yield from _named_roles(entry)
    elif isinstance(found, dict):
        if found.get("key") == "dpone/role":
            yield from found.get("values", [])
        for key, value in found.items():
            if key == "dpone/role":
                yield value
            yield from _named_roles(value)


def test_dagster_is_set_as_everywhere_but_for_what_pods_need() -> None:
    packaged = yaml.safe_load((Path(dpone_dagster.__file__).parent / "dagster.yaml").read_text())
    ours = helm.instance_settings(helm.values())
    for same in ("run_retries", "concurrency", "telemetry", "python_logs"):
        assert ours[same] == packaged[same], same
    assert ours["run_monitoring"] == {
        **packaged["run_monitoring"],
        "start_timeout_seconds": 300,
        "poll_interval_seconds": 30,
        "max_resume_run_attempts": 0,
    }


def test_no_secret_stands_in_the_files() -> None:
    chosen = helm.values()
    variables = helm.launcher_config(chosen)["run_k8s_config"]["container_config"]["env"]
    assert variables == helm.code_server(chosen)["spec"]["template"]["spec"]["containers"][0]["env"]
    plain = {variable["name"] for variable in variables if "value" in variable}
    assert plain == {"DPONE_EXECUTOR"}
    assert "postgresqlPassword" not in chosen["postgresql"]
    assert chosen["generatePostgresqlPasswordSecret"] is False


# ---------------------------------------------------------------- a campaign, each step a pod


@pytest.fixture
def cluster(orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A cluster with the secrets that the values refer to; a Dagster instance by the values is this process's own."""
    secrets = {
        "dpone-connections": {"postgres-oltp": orders.source_url, "mssql-dwh": orders.target_url},
        "dagster-postgresql": {"postgresql-password": "not used here"},
    }
    # The values name the connections of an example; the test's manifest has to name the same.
    orders.manifest["source"]["connection_ref"] = "postgres_oltp"
    orders.manifest["sink"]["connection_ref"] = orders.manifest["state"]["connection_ref"] = "mssql_dwh"
    monkeypatch.setenv("DPONE_CONNECTION_POSTGRES_OLTP", orders.source_url)
    monkeypatch.setenv("DPONE_CONNECTION_MSSQL_DWH", orders.target_url)
    monkeypatch.setenv("DPONE_EXECUTOR", "k8s")
    home = tmp_path / "dagster"
    home.mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    with Cluster(secrets, {"DAGSTER_HOME": str(home)}, helm.NAMESPACE) as cluster:
        settings = helm.instance_settings(helm.values())
        settings["run_launcher"]["config"] |= {
            "load_incluster_config": False,
            "kubeconfig_file": str(cluster.kubeconfig(tmp_path)),
        }
        (home / "dagster.yaml").write_text(yaml.safe_dump(settings))
        yield cluster


def launch(instance: DagsterInstance, manifest: Path) -> DagsterRun:
    """As the daemon does when the run leaves the queue."""
    pointer = CustomPointer(ModuleCodePointer(code_location.__name__, "build_repository"), [str(manifest)], [])
    job = ReconstructableRepository(pointer, IMAGE).get_reconstructable_job("orders_campaign")
    shadow = frozenset({AssetKey(["orders", "shadow"])})  # the steps that follow are pods of the same kind
    run = instance.create_run_for_job(
        job.get_definition().get_subset(asset_selection=shadow),
        job_code_origin=job.get_python_origin(),
        asset_selection=shadow,
        status=DagsterRunStatus.STARTING,
    )
    instance.run_launcher.launch_run(LaunchRunContext(run, workspace=None))
    return run


def disrupt(cluster: Cluster, orders: Orders, missed: list[str]) -> None:
    """Both lanes go in the middle of a chunk: one is told to, one is lost with its node."""
    with psycopg.connect(orders.source_url) as migration:
        if not within(PATIENCE_SECONDS, lambda: orders.on_target(PREPARED) == [(True,)]):
            missed.append("the campaign was not prepared")
        migration.execute("LOCK TABLE public.orders IN ACCESS EXCLUSIVE MODE")
        if not within(PATIENCE_SECONDS, lambda: orders.on_source(WAITING) == [(2,)]):
            missed.append("the lanes do not wait for the source")
            return
        for step, told in ((EVICTED, signal.SIGTERM), (LOST, signal.SIGKILL)):
            pod = cluster.pod_of(step)
            pod.send_signal(told)
            if not within(PATIENCE_SECONDS, lambda pod=pod: pod.poll() is not None):
                missed.append(f"{step} did not go")


@pytest.mark.slow
def test_each_lane_is_a_pod_and_one_that_is_lost_is_replaced_and_goes_on_by_the_receipts(
    cluster: Cluster, orders: Orders, tmp_path: Path
) -> None:
    manifest, missed = orders.write(tmp_path), []
    with DagsterInstance.get() as instance:
        run = launch(instance, manifest)
        thread = threading.Thread(target=disrupt, args=(cluster, orders, missed), daemon=True)
        thread.start()
        assert within(900, lambda: bool((now := instance.get_run_by_id(run.run_id)) and now.is_finished))
        thread.join()
        ended = instance.get_run_by_id(run.run_id)
        retried = instance.all_logs(run.run_id, of_type=DagsterEventType.STEP_RESTARTED)
    assert missed == []
    assert ended is not None
    assert ended.status is DagsterRunStatus.SUCCESS
    assert sorted(record.step_key or "" for record in retried) == [EVICTED, LOST]
    ((receipts, chunks),) = orders.on_target(RECEIPTS)
    assert receipts == chunks == orders.spec.plan.count
    assert orders.rows_of(orders.spec.shadow) == orders.source_rows()
    jobs_are_as_the_values_say(cluster)


@pytest.mark.slow
def test_a_run_whose_own_pod_is_evicted_takes_its_lanes_along_and_will_be_run_again(
    cluster: Cluster, orders: Orders, tmp_path: Path
) -> None:
    with DagsterInstance.get() as instance, psycopg.connect(orders.source_url) as migration:
        migration.execute("LOCK TABLE public.orders IN ACCESS EXCLUSIVE MODE")
        run = launch(instance, orders.write(tmp_path))
        assert within(PATIENCE_SECONDS, lambda: orders.on_source(WAITING) == [(2,)])
        lanes = [cluster.pod_of(step) for step in (EVICTED, LOST)]
        cluster.run_pod().terminate()
        assert within(PATIENCE_SECONDS, lambda: all(lane.poll() is not None for lane in lanes))
        assert within(PATIENCE_SECONDS, lambda: bool((now := instance.get_run_by_id(run.run_id)) and now.is_finished))
        ended = instance.get_run_by_id(run.run_id)
    assert ended is not None
    assert ended.status is DagsterRunStatus.FAILURE
    assert ended.tags[WILL_RETRY_TAG] == "true"
    assert orders.on_target(STATES) == [("pending", orders.spec.plan.count)]


def jobs_are_as_the_values_say(cluster: Cluster) -> None:
    (run,), steps = cluster.jobs_of("run_worker"), cluster.jobs_of("step_worker")
    for job in (run, *steps):
        kubernetes_validate.validate(job, SCHEMAS, strict=True)
        assert job["spec"]["backoffLimit"] == 0  # Dagster starts a pod again, and nobody else
        template = job["spec"]["template"]
        assert template["metadata"]["labels"]["dpone/role"] == "worker"
        assert template["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"
        pod = template["spec"]
        assert pod["restartPolicy"] == "Never"
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["terminationGracePeriodSeconds"] == 60
        (container,) = pod["containers"]
        assert container["image"] == IMAGE
        assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        assert container["resources"]["requests"] == {"cpu": "500m", "memory": "768Mi"}
        assert container["resources"]["limits"] == {"memory": "1536Mi"}
        by_reference = {v["name"] for v in container["env"] if "secretKeyRef" in v.get("valueFrom", {})}
        assert by_reference == {
            "DAGSTER_PG_PASSWORD",
            "DPONE_CONNECTION_POSTGRES_OLTP",
            "DPONE_CONNECTION_MSSQL_DWH",
        }
        assert "postgresql://" not in str(job)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": run["metadata"]["name"]}
    for step in steps:
        (found,) = step["metadata"]["ownerReferences"]
        assert owner.items() <= found.items()  # goes when its run's pod goes

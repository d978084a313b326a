"""As much of a Kubernetes cluster as Dagster needs: Jobs over HTTP that become processes of this machine.

What is not shown by it: images, scheduling, limits, network policies, garbage collection by owner. Secrets are resolved
as Kubernetes does, so that a reference which names none fails.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

_UID = "00000000-0000-0000-0000-00000000d001"


@dataclass
class Cluster:
    """The API server and the only node.

    Args:
        secrets: By name, then by key.
        image: What the image brings into each container's environment, in place of what the Job says.
        namespace: Of everything.
    """

    secrets: Mapping[str, Mapping[str, str]]
    image: Mapping[str, str]
    namespace: str
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    pods: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __enter__(self) -> Cluster:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        for pod in self.pods.values():
            pod.kill()
            pod.wait()

    def kubeconfig(self, folder: Path) -> Path:
        """Write a kubeconfig for it."""
        name = {"name": "here"}
        settings = {
            "clusters": [{**name, "cluster": {"server": f"http://127.0.0.1:{self._server.server_port}"}}],
            "users": [{**name, "user": {}}],
            "contexts": [{**name, "context": {"cluster": "here", "user": "here", "namespace": self.namespace}}],
            "current-context": "here",
        }
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(settings))
        return path

    def jobs_of(self, component: str) -> list[dict[str, Any]]:
        """All Jobs whose pods are of this component, in the order they were made."""
        label = "app.kubernetes.io/component"
        return [job for job in self.jobs.values() if job["spec"]["template"]["metadata"]["labels"][label] == component]

    def pod_of(self, step: str) -> subprocess.Popen[bytes]:
        """The first pod of a step."""
        named = {"name": "DAGSTER_RUN_STEP_KEY", "value": step}
        job = next(j for j in self.jobs_of("step_worker") if named in _container(j)["env"])
        return self.pods[job["metadata"]["name"]]

    def run_pod(self) -> subprocess.Popen[bytes]:
        """The run's own pod."""
        (job,) = self.jobs_of("run_worker")
        return self.pods[job["metadata"]["name"]]

    def create(self, job: dict[str, Any]) -> dict[str, Any]:
        """Start the Job's only pod."""
        name = job["metadata"]["name"]
        container = _container(job)
        environment = {variable["name"]: self._value(variable) for variable in container["env"]}
        with Path(self.image["DAGSTER_HOME"], f"{name}.log").open("wb") as log:
            self.pods[name] = subprocess.Popen(
                [sys.executable, "-m", *container["args"]],
                env={"PATH": os.environ["PATH"], **environment, **self.image, "HOSTNAME": name},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.jobs[name] = job
        return self.job(name)

    def job(self, name: str) -> dict[str, Any]:
        """A Job with its status."""
        code = self.pods[name].poll()
        count = "active" if code is None else "failed" if code else "succeeded"
        return {**self.jobs[name], "status": {count: 1}}

    def pod(self, name: str) -> dict[str, Any]:
        """A pod, named as its Job."""
        return {"metadata": {"name": name, "uid": _UID}, "spec": {"containers": [{"name": "dagster"}]}}

    def stop(self, name: str) -> dict[str, Any]:
        """Tell a pod to go."""
        self.pods[name].terminate()
        return {"kind": "Status", "status": "Success"}

    def _value(self, variable: dict[str, Any]) -> str:
        if "valueFrom" not in variable:
            return str(variable["value"])
        reference = variable["valueFrom"]["secretKeyRef"]
        return self.secrets[reference["name"]][reference["key"]]


def _container(job: dict[str, Any]) -> dict[str, Any]:
    (container,) = job["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = container
    return found


def _handler(cluster: Cluster) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, name = self._asked()
            if kind == "jobs":
                self._answer(cluster.job(name) if name in cluster.jobs else None)
            elif name:
                self._answer(cluster.pod(name))
            else:
                selector = parse_qs(urlsplit(self.path).query)["labelSelector"][0]
                self._answer({"items": [cluster.pod(selector.removeprefix("job-name="))]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._answer(cluster.create(body))

        def do_DELETE(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self._answer(cluster.stop(self._asked()[1]))

        def _asked(self) -> tuple[str, str]:
            kind, _, rest = urlsplit(self.path).path.partition(f"/namespaces/{cluster.namespace}/")[2].partition("/")
            return kind, rest.removesuffix("/status")

        def _answer(self, found: object | None) -> None:
            content = json.dumps(found if found is not None else {"kind": "Status", "code": 404}).encode()
            self.send_response(200 if found is not None else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            return

    return Handler

"""What Dagster's UI does with runs: the mutations behind its buttons, carried out by the code location."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dagster import DagsterEventType, DagsterRun, DagsterRunStatus
from dagster_graphql.client.client_queries import TERMINATE_RUN_JOB_MUTATION
from dagster_graphql.client.query import LAUNCH_PIPELINE_EXECUTION_MUTATION
from dagster_graphql.test.utils import execute_dagster_graphql, infer_job_selector

from tests.dagster.daemon import Daemon
from tests.waiting import PATIENCE_SECONDS, within


@dataclass
class Ui:
    """The UI beside a daemon, over the same workspace."""

    daemon: Daemon

    def launch(self, job: str) -> str:
        """*Launch run* of a job; returns the run's id once the daemon has taken it off the queue."""
        selector = infer_job_selector(self.daemon.workspace.create_request_context(), job)
        parameters = {"executionParams": {"selector": selector, "mode": "default"}}
        launched = self._sent(LAUNCH_PIPELINE_EXECUTION_MUTATION, parameters, "launchPipelineExecution")
        assert launched["__typename"] == "LaunchRunSuccess", launched
        run_id = str(launched["run"]["runId"])
        self.daemon.until(lambda: self._run(run_id).status is not DagsterRunStatus.QUEUED)
        return run_id

    def terminate(self, run_id: str) -> None:
        """*Terminate* of a run."""
        terminated = self._sent(TERMINATE_RUN_JOB_MUTATION, {"runId": run_id}, "terminateRun")
        assert terminated["__typename"] == "TerminateRunSuccess", terminated

    def end_of(self, run_id: str) -> DagsterRunStatus:
        """The run's status once it is over."""
        assert within(PATIENCE_SECONDS, lambda: self._run(run_id).is_finished), self._run(run_id)
        return self._run(run_id).status

    def failures(self, run_id: str) -> str:
        """What its failed steps said."""
        records = self.daemon.instance.all_logs(run_id, of_type=DagsterEventType.STEP_FAILURE)
        return "\n".join(str(record.get_dagster_event().event_specific_data) for record in records)

    def _sent(self, mutation: str, parameters: dict[str, Any], name: str) -> dict[str, Any]:
        context = self.daemon.workspace.create_request_context()
        answer: dict[str, Any] = execute_dagster_graphql(context, mutation, variables=parameters).data[name]
        return answer

    def _run(self, run_id: str) -> DagsterRun:
        run = self.daemon.instance.get_run_by_id(run_id)
        assert run is not None
        return run

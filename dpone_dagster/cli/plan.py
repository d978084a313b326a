"""`dpone backfill plan`: the campaign before it exists, from the manifest alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dpone_dagster.campaign.partitions import Partitions
from dpone_dagster.campaign.plan import Chunk
from dpone_dagster.campaign.progress import Progress
from dpone_dagster.campaign.slices import PublicationMode
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.cli.asked import Asked
from dpone_dagster.cli.looking import backfill_dict, window_notes
from dpone_dagster.cli.report import Report, Table, command
from dpone_dagster.engine.inspect import CampaignStatus
from dpone_dagster.settings import load_spec

_SHOWN_AT_EACH_END = 3
_WITH_EXECUTE: Mapping[PublicationMode, str] = {
    "direct": "With --execute: load every chunk into the live table, each with its receipt in one transaction.",
    "shadow_swap": "With --execute: load every chunk into the shadow, validate it, swap it in, hand over.",
}


@dataclass(frozen=True)
class PlanView:
    """What is shown of a plan: bounded, however many chunks there are."""

    spec: CampaignSpec
    partitions: Partitions

    @classmethod
    def of(cls, spec: CampaignSpec) -> PlanView:
        """The view of one campaign."""
        return cls(spec, Partitions(spec.plan.count, spec.run_key, spec.max_partitions))

    def shown(self) -> tuple[list[Chunk], list[Chunk]]:
        """The first and the last chunks; the last ones are empty if the first are all."""
        plan = self.spec.plan
        head = min(plan.count, _SHOWN_AT_EACH_END)
        tail = max(head, plan.count - _SHOWN_AT_EACH_END)
        return [plan.chunk(i) for i in range(head)], [plan.chunk(i) for i in range(tail, plan.count)]

    @property
    def planned(self) -> CampaignStatus:
        """The campaign as if it was never prepared: no connection is opened to find out."""
        return CampaignStatus(self.spec, None, Progress(self.spec.plan.count, 0, 0, 0, 0, 0, 0, 0.0, 0.0))

    def as_dict(self) -> dict[str, object]:
        """The public JSON but for its `backfill` object."""
        spec = self.spec
        first, last = self.shown()
        return {
            "dataset": spec.dataset,
            "backfill_id": spec.backfill_id,
            "run_key": spec.run_key,
            "source": str(spec.source),
            "target": str(spec.target),
            "publication_mode": spec.publication.mode,
            "inner_mode": spec.inner_mode,
            "shadow": None if spec.direct else str(spec.shadow),
            "backup": None if spec.direct else str(spec.backup),
            "unique_key": list(spec.unique_key),
            "handoff_id": spec.handoff_id,
            "chunk": spec.chunk.as_dict(),
            "chunk_count": spec.plan.count,
            "lanes": spec.lanes,
            "partitions": {
                "count": len(self.partitions),
                "grouped": self.partitions.grouped,
                "first": self.partitions.key_of(0),
                "last": self.partitions.key_of(spec.plan.count - 1),
            },
            "chunks": {"first": [self._chunk(c) for c in first], "last": [self._chunk(c) for c in last]},
        }

    def _chunk(self, chunk: Chunk) -> dict[str, object]:
        return {
            "index": chunk.index,
            "partition": self.partitions.key_of(chunk.index),
            "lower": chunk.lower,
            "upper": chunk.upper,
            "upper_inclusive": chunk.upper_inclusive,
        }

    def tables(self) -> tuple[Table, Table]:
        """Names and identity; first and last ranges."""
        spec = self.spec
        facts = (
            ("source", str(spec.source), f"connection {spec.source_ref}"),
            ("target", str(spec.target), f"connection {spec.sink_ref}, {spec.sink_type}"),
            *self._tables(),
            ("campaign", spec.backfill_id or "(not pinned)", f"run key {spec.run_key[:12]}"),
            ("handoff", spec.handoff_id or "none", "increments start from it" if spec.handoff_id else "no increments"),
        )
        first, last = self.shown()
        rows = [self._row(chunk) for chunk in first]
        if left_out := spec.plan.count - len(first) - len(last):
            rows.append(("…", "", f"{left_out:,} more"))
        rows += [self._row(chunk) for chunk in last]
        return Table(("", "", ""), facts), Table(("chunk", "partition", f"range of {spec.chunk.column}"), tuple(rows))

    def _tables(self) -> tuple[tuple[str, str, str], ...]:
        spec = self.spec
        if spec.direct:
            return (("mode", spec.inner_mode, f"each chunk goes straight into {spec.target}, in one transaction"),)
        return (
            ("shadow", str(spec.shadow), "filled chunk by chunk, swapped in by one transaction"),
            ("backup", str(spec.backup), "the table that is live now, kept"),
        )

    def _row(self, chunk: Chunk) -> tuple[str, str, str]:
        return str(chunk.index), self.partitions.key_of(chunk.index), str(chunk)

    def mapping_notes(self) -> tuple[str, ...]:
        """How many runs Dagster makes of a backfill, where it is more than one."""
        mapping = self.spec.mapping
        if not mapping.mapped:
            return ()
        runs = mapping.runs_of(len(self.partitions))
        return (
            f"A backfill of all partitions is {runs:,} runs of one lane, {mapping.max_active} at a time in the Dagster "
            f"pool `{mapping.pool}`; this command is one run of {self.spec.lanes} lanes.",
        )

    def headline(self) -> str:
        """One line."""
        spec = self.spec
        partitions = f" in {len(self.partitions):,} partitions" if self.partitions.grouped else ""
        return (
            f"{spec.dataset}: {spec.plan.count:,} {spec.chunk.kind} chunks of {spec.chunk.column}{partitions}, "
            f"{spec.lanes} lanes, {spec.source} → {spec.target}"
        )


def plan_report(manifest: Asked) -> Report:
    """The plan of a manifest; the same manifest, the same report."""
    return _report(PlanView.of(load_spec(manifest.path, manifest.options)), manifest)


def _report(view: PlanView, manifest: Asked, **operation: object) -> Report:
    return Report(
        headline=view.headline(),
        data={**view.as_dict(), "backfill": {**backfill_dict(view.planned, manifest), **operation}},
        tables=view.tables(),
        notes=(*window_notes(view.spec, manifest), *view.mapping_notes()),
        next_commands=(
            command("backfill", "doctor", manifest),
            command("backfill", "run", manifest, "--execute"),
        ),
    )


def dry_run_report(manifest: Asked) -> Report:
    """What a run would do; nothing was touched."""
    view = PlanView.of(load_spec(manifest.path, manifest.options))
    report = _report(view, manifest, operation_status="dry_run", selected_chunks=view.spec.plan.count)
    return replace(
        report,
        headline=f"dry run, nothing was touched. {report.headline}",
        data={"dry_run": True, **report.data},
        notes=(
            *report.notes,
            _WITH_EXECUTE[view.spec.publication.mode],
        ),
    )

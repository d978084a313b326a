"""Evidence for the advisor: what chunks, load steps and certification reports say of a route's speed and health."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dpone_dagster.campaign.errors import EvidenceInvalid, Finding

CHUNK_LEDGER, LOAD_STEPS, MATRIX_REPORT = "chunk_ledger", "load_steps", "matrix_report"
_REPORTS = ("matrix_report", "certification_report")
_FORMS = '`{"load_steps": […]}`, `{"chunks": […]}`, `{"matrix_report": {…}}` or `{"certification_report": {…}}`'


@dataclass(frozen=True)
class Evidence:
    """What is known, summed up.

    Attributes:
        sources: Where it comes from, of `chunk_ledger`, `load_steps` and `matrix_report`.
        committed_chunks: Chunks that succeeded.
        empty_chunks: Those of them without a row.
        failed_chunks: Chunks that ended in an error.
        lease_expired_chunks: Chunks whose worker was not heard of any more.
        retried_chunks: Chunks that took more than one try.
        chunk_seconds: Durations of chunks that succeeded with rows.
        stage_rates: Rows a second of each stage, the lowest that was seen.
        failed_matrix_reports: Reports that are not green.
        failed_matrix_cases: Cases of them that failed.
    """

    sources: tuple[str, ...] = ()
    committed_chunks: int = 0
    empty_chunks: int = 0
    failed_chunks: int = 0
    lease_expired_chunks: int = 0
    retried_chunks: int = 0
    chunk_seconds: tuple[float, ...] = ()
    stage_rates: Mapping[str, float] = field(default_factory=dict)
    failed_matrix_reports: int = 0
    failed_matrix_cases: int = 0

    @property
    def median_chunk_seconds(self) -> float | None:
        """Of chunks with rows; None if none is known."""
        known = sorted(self.chunk_seconds)
        return known[len(known) // 2] if known else None

    def and_(self, other: Evidence) -> Evidence:
        """Both together; of a stage's rates the lower one, so that no fast chunk hides a slow stage."""
        rates = dict(self.stage_rates)
        for stage, rate in other.stage_rates.items():
            rates[stage] = min(rate, rates.get(stage, rate))
        return Evidence(
            sources=tuple(dict.fromkeys((*self.sources, *other.sources))),
            committed_chunks=self.committed_chunks + other.committed_chunks,
            empty_chunks=self.empty_chunks + other.empty_chunks,
            failed_chunks=self.failed_chunks + other.failed_chunks,
            lease_expired_chunks=self.lease_expired_chunks + other.lease_expired_chunks,
            retried_chunks=self.retried_chunks + other.retried_chunks,
            chunk_seconds=(*self.chunk_seconds, *other.chunk_seconds),
            stage_rates=rates,
            failed_matrix_reports=self.failed_matrix_reports + other.failed_matrix_reports,
            failed_matrix_cases=self.failed_matrix_cases + other.failed_matrix_cases,
        )

    def as_dict(self) -> dict[str, object]:
        """The `evidence` object of the public JSON."""
        median = self.median_chunk_seconds
        return {
            "committed_chunks": self.committed_chunks,
            "empty_chunks": self.empty_chunks,
            "failed_chunks": self.failed_chunks,
            "lease_expired_chunks": self.lease_expired_chunks,
            "retried_chunks": self.retried_chunks,
            "median_chunk_seconds": None if median is None else round(median, 3),
            "stage_rows_per_second": {stage: round(rate, 1) for stage, rate in sorted(self.stage_rates.items())},
            "failed_matrix_reports": self.failed_matrix_reports,
            "failed_matrix_cases": self.failed_matrix_cases,
        }


def read_evidence(data: object, name: str) -> Evidence:
    """One evidence file.

    Args:
        data: Its JSON.
        name: Of the file.

    Raises:
        EvidenceInvalid: It has none of the known shapes.
    """
    if isinstance(data, list):
        return _load_steps(_records(data, name))
    if isinstance(data, Mapping):
        found = [read(data[key], name) for key, read in _SHAPES if key in data]
        if "total_cases" in data:
            found.append(_matrix(data, name))
        if found:
            total = Evidence()
            for part in found:
                total = total.and_(part)
            return total
    raise _unknown(name, "has none of the known shapes")


def _unknown(name: str, problem: str) -> EvidenceInvalid:
    return EvidenceInvalid("the evidence cannot be read", findings=[Finding(name, problem, f"give {_FORMS}")])


def _records(data: object, name: str) -> Sequence[Mapping[str, Any]]:
    if isinstance(data, list) and all(isinstance(record, Mapping) for record in data):
        return data
    raise _unknown(name, "is no list of records")


def _read_chunks(data: object, name: str) -> Evidence:
    return chunk_evidence(_records(data, name))


def _read_steps(data: object, name: str) -> Evidence:
    return _load_steps(_records(data, name))


def _matrix(data: object, name: str) -> Evidence:
    if not isinstance(data, Mapping):
        raise _unknown(name, "is no report")
    failed = _number(data, "failed_cases", "failed", "failures") or 0.0
    total, passed = _number(data, "total_cases"), _number(data, "passed_cases", "passed")
    if total is not None and passed is not None and not isinstance(data.get("passed"), bool):
        failed = max(failed, total - passed)
    word = str(data.get("status", "")).lower()
    red = failed > 0 or data.get("passed") is False or word in ("red", "failed", "fail", "blocked")
    return Evidence((MATRIX_REPORT,), failed_matrix_reports=int(red), failed_matrix_cases=int(failed))


_SHAPES = (("chunks", _read_chunks), ("load_steps", _read_steps), *((name, _matrix) for name in _REPORTS))


def chunk_evidence(chunks: Iterable[Mapping[str, Any]]) -> Evidence:
    """What chunk records say: state, rows, tries, and their duration or when they started and finished."""
    count = {"committed": 0, "empty": 0, "failed": 0, "expired": 0, "retried": 0}
    seconds: list[float] = []
    for chunk in chunks:
        state = str(chunk.get("state") or chunk.get("status") or "").lower()
        told = f"{chunk.get('error_code') or ''} {chunk.get('error') or ''}".lower()
        count["expired"] += state == "lease_expired" or "lease_expired" in told
        count["failed"] += state == "failed"
        count["retried"] += (_number(chunk, "tries", "attempts") or 1) > 1
        if state not in ("committed", "success", "succeeded"):
            continue
        count["committed"] += 1
        rows = _number(chunk, "rows", "rows_loaded", "row_count")
        count["empty"] += rows == 0
        if rows and (taken := _seconds(chunk)) is not None:
            seconds.append(taken)
    return Evidence(
        (CHUNK_LEDGER,),
        committed_chunks=count["committed"],
        empty_chunks=count["empty"],
        failed_chunks=count["failed"],
        lease_expired_chunks=count["expired"],
        retried_chunks=count["retried"],
        chunk_seconds=tuple(seconds),
    )


def _load_steps(steps: Iterable[Mapping[str, Any]]) -> Evidence:
    """The lowest positive rate of each stage."""
    rates: dict[str, float] = {}
    for step in steps:
        stage = str(step.get("stage") or step.get("step") or step.get("name") or "")
        rate = _number(step, "rows_per_second", "rows_per_sec")
        rows, seconds = _number(step, "rows", "rows_loaded", "row_count"), _seconds(step)
        if rate is None and rows is not None and seconds:
            rate = rows / seconds
        if stage and rate is not None and rate > 0:
            rates[stage] = min(rate, rates.get(stage, rate))
    return Evidence((LOAD_STEPS,), stage_rates=rates)


def _number(record: Mapping[str, Any], *names: str) -> float | None:
    for name in names:
        value = record.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None


def _seconds(record: Mapping[str, Any]) -> float | None:
    told = _number(record, "seconds", "duration_seconds", "elapsed_seconds")
    if told is not None:
        return told
    try:
        started, finished = (datetime.fromisoformat(str(record[key])) for key in ("started_at", "finished_at"))
        return (finished - started).total_seconds()
    except (KeyError, ValueError, TypeError):
        return None

"""Evidence for the advisor: what chunks, load steps and certification reports say of a route's speed and health."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, Field, FiniteFloat, TypeAdapter, ValidationError, model_validator

from dpone_dagster.campaign.errors import EvidenceInvalid, Finding

CHUNK_LEDGER, LOAD_STEPS, MATRIX_REPORT = "chunk_ledger", "load_steps", "matrix_report"
_REPORTS = ("matrix_report", "certification_report")
FORMS = '`{"load_steps": […]}`, `{"chunks": […]}`, `{"matrix_report": {…}}` or `{"certification_report": {…}}`'
_RED = frozenset({"red", "failed", "fail", "blocked", "error"})
_GREEN = frozenset({"green", "passed", "pass", "ok", "success", "succeeded"})
_SHOWN = 5


def _moment(text: str) -> str:
    datetime.fromisoformat(text)
    return text


def _verdict(text: str) -> str:
    if text.lower() not in _RED | _GREEN:
        raise ValueError(f"it is none of {', '.join(sorted(_RED | _GREEN))}")
    return text


_Number = Annotated[FiniteFloat, Field(ge=0)] | None
_Count = Annotated[int, Field(ge=0, lt=2**63)]
_Moment = Annotated[str, AfterValidator(_moment)] | None


class _Timed(BaseModel):
    rows: _Number = None
    rows_loaded: _Number = None
    row_count: _Number = None
    seconds: _Number = None
    duration_seconds: _Number = None
    elapsed_seconds: _Number = None
    started_at: _Moment = None
    finished_at: _Moment = None


class _Chunk(_Timed):
    state: str | None = None
    status: str | None = None
    tries: _Number = None
    attempts: _Number = None
    error_code: str | None = None
    error: str | None = None


class _Step(_Timed):
    stage: str | None = None
    step: str | None = None
    name: str | None = None
    rows_per_second: FiniteFloat | None = None
    rows_per_sec: FiniteFloat | None = None


class _Report(BaseModel):
    total_cases: _Count | None = None
    failed_cases: _Count | None = None
    failed: _Count | None = None
    failures: _Count | None = None
    passed_cases: _Count | None = None
    passed: bool | _Count | None = None
    status: Annotated[str, AfterValidator(_verdict)] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        said = self.model_dump(exclude={"total_cases"}, exclude_none=True)
        if not said:
            raise ValueError("it says neither what failed nor what passed")
        most = [number for number in said.values() if isinstance(number, int)]
        if self.total_cases is not None and max(most, default=0) > self.total_cases:
            raise ValueError("it has more cases than `total_cases`")
        return self


_CHUNKS, _STEPS, _REPORT = TypeAdapter(list[_Chunk]), TypeAdapter(list[_Step]), TypeAdapter(_Report)


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
        EvidenceInvalid: It has none of the known shapes, or a value in it is of another kind than its key says.
    """
    if isinstance(data, list):
        return _read_steps(data, name)
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
    return EvidenceInvalid("the evidence cannot be read", findings=[Finding(name, problem, f"give {FORMS}")])


def _proven(shape: TypeAdapter[Any], data: Any, name: str) -> Any:
    """The data, once every value that counts is of its kind: what is misread as green would hide what is red."""
    try:
        shape.validate_python(data, strict=True)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        places = [(".".join(map(str, each["loc"])), each["msg"]) for each in found[:_SHOWN]]
        findings = [Finding(f"{name}: {place}" if place else name, said, f"give {FORMS}") for place, said in places]
        raise EvidenceInvalid("the evidence cannot be read", findings=findings) from None
    return data


def _read_chunks(data: object, name: str) -> Evidence:
    return chunk_evidence(_proven(_CHUNKS, data, name))


def _read_steps(data: object, name: str) -> Evidence:
    return _load_steps(_proven(_STEPS, data, name))


def _matrix(data: object, name: str) -> Evidence:
    report: Mapping[str, Any] = _proven(_REPORT, data, name)
    failed = max(_number(report, key) or 0.0 for key in ("failed_cases", "failed", "failures"))
    total, passed = _number(report, "total_cases"), _number(report, "passed_cases", "passed")
    if total is not None and passed is not None:
        failed = max(failed, total - passed)
    red = failed > 0 or report.get("passed") is False or str(report.get("status")).lower() in _RED
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

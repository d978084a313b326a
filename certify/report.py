"""The report: everything that was found out, and the verdict that follows from it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from certify.measurements import Facts, Measurements
from certify.verdict import Criterion, Result, Verdict, judge, verdict_of

_SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"
# What the model refuses on its own, said in the schema too, for those who read reports without this program.
_PASS_NEEDS_ALL: dict[str, Any] = {
    "if": {"properties": {"verdict": {"const": Verdict.PASS.value}}},
    "then": {
        "properties": {
            "criteria": {"minItems": 1, "items": {"properties": {"result": {"const": Result.HELD.value}}}},
            "measurements": {
                "properties": {name: {"not": {"type": "null"}} for name in sorted(Measurements.model_fields)},
            },
        }
    },
}


class Parameters(Facts):
    """How big it was."""

    rows: int = Field(description="Rows spread over all chunks.")
    chunks: int
    lanes: int
    large_chunks: int = Field(description="Chunks that got about a million rows more.")


class Report(Facts):
    """A report of `make certify`. Its verdict is the one that follows from its measurements, or it is no report."""

    schema_version: Literal[1] = 1
    verdict: Verdict
    criteria: tuple[Criterion, ...]
    measurements: Measurements
    parameters: Parameters
    problems: tuple[str, ...] = Field(description="What kept the procedure from going on, or from cleaning up.")
    limitations: tuple[str, ...] = Field(description="What this does not say.")
    versions: dict[str, str]
    started_at: datetime
    seconds: float

    @model_validator(mode="after")
    def _verdict_follows(self) -> Self:
        if self.criteria != judge(self.measurements) or self.verdict != verdict_of(self.criteria):
            raise ValueError("verdict and criteria do not follow from the measurements")
        return self

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.model_dump_json(indent=2) + "\n")


def report_schema() -> dict[str, Any]:
    """The JSON Schema of a report."""
    return {"$schema": _SCHEMA_ID, **Report.model_json_schema(mode="serialization"), **_PASS_NEEDS_ALL}

"""What a certification measures, as plain data. Whatever was not measured is None, or is not there."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

# What the procedure asks for.
CHUNKS = 512
LANES = 4
LOOKS = 100  # of the reader; fewer may well have slept through the publication
TIMED_CHUNKS = 20  # of fewer the p95 is the slowest one
LARGE_CHUNK_ROWS = 900_000
LARGE_CHUNK_SECONDS = 120.0
FAILED = 1  # the exit code of a run that did not succeed
CRASHES = {
    "before_chunk_commit": "before the target's commit",
    "after_chunk_commit": "after the target's commit",
    "after_ledger": "after the ledger's update",
    "between_renames": "during publication, between the renames",
    "after_publication_commit": "during publication, after its commit",
}


class Facts(BaseModel):
    """Base of everything in the report: no key that is not named here."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_serialization_defaults_required=True)


class Server(Facts):
    """One end of the route."""

    connection_ref: str = Field(description="Name of its connection; the URL is nowhere in this report.")
    kind: Literal["postgres", "mssql"]
    version: str = Field(description="As the server says it.")
    genuine: bool = Field(description="False for a server that stands in for one of this kind.")


class Crash(Facts):
    """One crash that the procedure asks for."""

    point: str = Field(description="The fault point, as in docs/faults.md.")
    chunk: int | None = Field(description="The chunk in hand; null for any, and at publication.")
    killed: bool = Field(description="Whether every process of the run was ended by SIGKILL while it was there.")


class Step(Facts):
    """One command that was typed."""

    command: str
    killed_at: str | None = Field(description="The fault point at which it was killed, if it was.")
    exit_code: int = Field(description="-9 if it was killed.")
    seconds: float
    failure: str | None = Field(description="What the state tables say of a run that failed by itself.")


class State(Facts):
    """What one look at the live table saw."""

    old_rows: int
    new_rows: int


class Seen(Facts):
    """What a reader of the live table saw, from before the first command until after the last one."""

    looks: int
    states: tuple[State, ...] = Field(description="Each state that differs from the one before it, in order.")
    errors: tuple[str, ...]
    longest_look_seconds: float = Field(description="The longest wait for an answer; counting is part of it.")
    last_look_seconds: float = Field(description="The last look, when nothing else went on: counting alone.")


class Times(Facts):
    """How long chunks took, by the ledger. Chunks that were only taken up by their receipt do not count."""

    chunks: int = Field(ge=1, description="How many were measured.")
    fewest_rows: int = Field(description="Rows of the smallest one.")
    median_seconds: float
    p95_seconds: float = Field(description="By nearest rank: of fewer than 20 chunks it is the slowest one.")
    max_seconds: float


class Publication(Facts):
    """What the target's state says of the publication."""

    phase: str
    publications: int = Field(description="Receipts that this target has.")
    handoff_closed: bool


class Measurements(Facts):
    """Everything that was measured; the verdict comes from here and from nowhere else."""

    source: Server | None = None
    target: Server | None = None
    chunks: int | None = Field(None, description="Chunks of the plan.")
    committed_chunks: int | None = Field(None, description="Chunks that the ledger has as committed.")
    lanes: int | None = Field(
        None, description="Most chunks that lanes had in hand at one moment, by the ledger's times of committed chunks."
    )
    crashes: tuple[Crash, ...] = ()
    operator_steps: tuple[Step, ...] = Field((), description="Every command that was typed, in order.")
    source_rows: int | None = Field(None, description="Counted by the source.")
    target_rows: int | None = Field(None, description="Counted by the target.")
    target_keys: int | None = Field(None, description="Distinct keys, counted by the target.")
    source_digest: str | None = Field(None, description="`rows:sum`, an order-free digest over every column.")
    target_digest: str | None = Field(None, description="The same of the live table.")
    receipts: int | None = Field(None, description="Receipts of chunks.")
    chunks_with_receipt: int | None = Field(None, description="Chunks whose one receipt the ledger names.")
    receipt_rows: int | None = Field(None, description="Sum of the rows that they vouch for.")
    foreign_receipts: int | None = Field(None, description="Receipts of another plan.")
    publication: Publication | None = None
    old_rows: int | None = Field(None, description="Rows of the live table before the first command.")
    backup_rows: int | None = Field(None, description="Rows of the table that is retained.")
    reader: Seen | None = None
    chunk_times: Times | None = None
    large_chunk_times: Times | None = Field(
        None, description=f"Of chunks of {LARGE_CHUNK_ROWS:,} rows or more; null where there was none."
    )
    rows_per_second: float | None = Field(
        None, description="Rows of the source by the time of all commands, those that were killed included."
    )

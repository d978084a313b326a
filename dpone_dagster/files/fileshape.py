"""What the JSON of a state file has to be for records to be made of it; anything else was edited by somebody."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Annotated, Any, Self, get_type_hints

from pydantic import AfterValidator, BaseModel, Field, FiniteFloat, ValidationError, create_model, model_validator

from dpone_dagster.campaign.errors import Finding
from dpone_dagster.campaign.history import StepRecord
from dpone_dagster.campaign.identity import sha256_of
from dpone_dagster.campaign.ledger import CampaignRecord, ChunkRecord, ChunkState, Worker
from dpone_dagster.campaign.receipts import ChunkReceipt
from dpone_dagster.campaign.watermark import SourceIdentity

_SHOWN = 5
_TABLES = ("target", "shadow", "backup")


def _moment(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("it has no time zone")
    return text


_Number = Annotated[int, Field(ge=0, le=2**63 - 1)]
_Seconds = Annotated[FiniteFloat, Field(ge=0)]
_Moment = Annotated[str, AfterValidator(_moment)]
_Digest = Annotated[str, Field(pattern=r"^-?\d{1,1000}$")]
# How the file writes what a record has as another type.
_WRITTEN: Mapping[Any, Any] = {
    int: _Number,
    int | None: _Number | None,
    float: _Seconds,
    float | None: _Seconds | None,
    datetime: _Moment,
    datetime | None: _Moment | None,
}


def _keys(record: type, *, without: Iterable[str] = (), optional: bool = False) -> dict[str, Any]:
    """The fields of a record as keys of the file."""
    hints = get_type_hints(record)
    names = [field.name for field in fields(record) if field.name not in without]
    kinds = {name: _WRITTEN.get(hints[name], hints[name]) for name in names}
    return {name: (kind | None, None) if optional else (kind, ...) for name, kind in kinds.items()}


class _Campaign(BaseModel):
    contract: dict[str, Any]
    contract_hash: str
    anchor_xid: _Number | None
    anchor_taken_at: _Moment | None = None
    created_at: _Moment
    updated_at: _Moment

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if sha256_of(self.contract) != self.contract_hash:
            raise ValueError("`contract` is not what `contract_hash` was taken of")
        identity = (getattr(self, f"anchor_{field.name}") for field in fields(SourceIdentity))
        if self.anchor_xid is not None and None in (self.anchor_taken_at, *identity):
            raise ValueError("the anchor lacks a part")
        return self


class _Notes(BaseModel):
    digest: _Digest | None = None
    target_digest: _Digest | None = None


class _Receipt(BaseModel):
    diagnostics: _Notes


class _Chunk(BaseModel):
    state: ChunkState
    worker_run_id: str | None = None
    lease_expires_at: _Moment | None = None
    started_at: _Moment | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        worker = [getattr(self, f"worker_{field.name}") for field in fields(Worker)]
        if self.worker_run_id is not None and None in worker:
            raise ValueError("its worker lacks a part")
        if self.state is ChunkState.RUNNING and None in (*worker, self.lease_expires_at, self.started_at):
            raise ValueError("it is running, and does not say since when, by whom or until when")
        return self


def _flat(prefix: str, keys: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{prefix}_{name}": kind for name, kind in keys.items()}


def _campaign() -> dict[str, Any]:
    named = {f"{table}_{part}": (str, ...) for table in _TABLES for part in ("schema", "name")}
    other = _keys(CampaignRecord, without={*_TABLES, *_Campaign.model_fields, "anchor"})
    return {**other, **named, **_flat("anchor", _keys(SourceIdentity, optional=True))}


def _chunk() -> dict[str, Any]:
    receipt = create_model("_", __base__=_Receipt, **_keys(ChunkReceipt, without=_Receipt.model_fields))
    own = {"index", "worker", "lease_expired", "epoch", "tries"}
    keys = _keys(ChunkRecord, without={*own, *_Chunk.model_fields}, optional=True)
    worker = _flat("worker", _keys(Worker, without={"run_id"}, optional=True))
    return {**keys, **worker, "epoch": (_Number, ...), "tries": (_Number, ...), "receipt": (receipt | None, None)}


class _Load(BaseModel):
    dataset: str
    kind: str
    run_id: str
    facts: dict[str, Any]


class _Step(BaseModel):
    load_id: str


class _File(BaseModel):
    campaign: create_model("_", __base__=_Campaign, **_campaign())  # type: ignore[valid-type]
    chunks: list[create_model("_", __base__=_Chunk, **_chunk())]  # type: ignore[valid-type]
    loads: dict[str, _Load] = {}
    load_steps: list[create_model("_", __base__=_Step, **_keys(StepRecord, without={"run_id"}))] = []  # type: ignore[valid-type]


def misfits(text: str) -> list[Finding]:
    """Where a file says what no record can hold, the first few; nothing if there is no such place.

    Args:
        text: Of the file; a JSON object.
    """
    try:
        _File.model_validate_json(text, strict=True)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        return [Finding(".".join(map(str, each["loc"])), each["msg"]) for each in found[:_SHOWN]]
    return []

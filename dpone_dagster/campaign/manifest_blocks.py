"""What manifests of either kind are made of: blocks, and the forms of names."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from dpone_dagster.campaign.manifest_values import as_text, folded_connection_id, with_connection_id
from dpone_dagster.campaign.names import TableRef

Name = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\x00]+$")]
ConnectionRef = Annotated[str, Field(max_length=63, pattern=r"^[A-Za-z][A-Za-z0-9_]*$")]
StateSchema = Annotated[str, Field(max_length=63, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
CampaignId = Annotated[str, Field(max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:+-]*$")]
Text = Annotated[str, BeforeValidator(as_text), WithJsonSchema({"type": ["string", "integer"]})]
Owner = Annotated[str, Field(pattern=r"^(team:[A-Za-z0-9_]+|[^@\s:]+@[^@\s]+\.[^@\s]+)$")]
TagKey = Annotated[str, Field(pattern=r"^([A-Za-z0-9_.-]{1,63}/)?[A-Za-z0-9_.-]{1,63}$")]
TagValue = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{0,63}$")]


class Block(BaseModel):
    """A mapping of the manifest: unknown keys are refused and nothing is converted in silence."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class TableBlock(Block):
    """A table by schema and name, both as the catalog has them."""

    schema_name: Name = Field(alias="schema")
    name: Name

    @property
    def ref(self) -> TableRef:
        """The table."""
        return TableRef(self.schema_name, self.name)


class Connected(Block):
    """A block with a connection; `connection_id` is an older word for `connection_ref`."""

    model_config = ConfigDict(json_schema_extra=with_connection_id)
    connection_ref: ConnectionRef = Field(description="Resolves to DPONE_CONNECTION_<REF>.")

    @model_validator(mode="before")
    @classmethod
    def _fold_connection_id(cls, data: Any) -> Any:
        return folded_connection_id(data)


class StateBlock(Connected):
    """Where the state lives: the sink's own server and database."""

    type: Literal["postgres", "mssql"]
    atomicity: Literal["target_atomic"]
    provisioning: Literal["auto", "external"] = "auto"

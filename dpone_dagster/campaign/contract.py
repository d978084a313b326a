"""The column contract: for each source column its exact home in the target, or a refusal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dpone_dagster.campaign.identity import sha256_of

CONTRACT_VERSION = 1
OnBadValue = Literal["fail", "null"]
Representation = Literal["text", "json"]


@dataclass(frozen=True)
class ColumnType:
    """A column's type as its server's catalog has it.

    Attributes:
        name: Canonical name: `int8`, `numeric`, `varchar`, `timestamptz` (PostgreSQL's `typname`).
        args: Type arguments: (precision, scale), (length,), (fractional digits,); empty if unconstrained.
        kind: `base`, or one of those that are refused unless both sides are the same built-in type.
        display: As the server prints it: `numeric(18,2)`.
        collation: Name of a collation other than the type's default, else None.
    """

    name: str
    args: tuple[int, ...] = ()
    kind: Literal["base", "array", "enum", "composite", "domain", "range"] = "base"
    display: str = ""
    collation: str | None = None

    def __str__(self) -> str:
        return self.display or self.name


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        name: Unquoted.
        type: Its type.
        nullable: Whether NULL is allowed.
        has_default: Whether the server fills it when an INSERT leaves it out.
    """

    name: str
    type: ColumnType
    nullable: bool
    has_default: bool = False


@dataclass(frozen=True)
class ColumnOption:
    """What the manifest says about one column under `sink.columns.<name>`."""

    on_bad_value: OnBadValue = "fail"
    representation: Representation | None = None


@dataclass(frozen=True)
class Guard:
    """A check that runs inside the chunk's one COPY; a row that fails it stops the chunk.

    Attributes:
        reason: Word for the error message: `nan`, `infinity`, `precision`, `length`, `range`, ….
        check: Name of the check; the source adapter knows its SQL.
        args: Its arguments.
    """

    reason: str
    check: str
    args: tuple[int | str, ...] = ()


def type_word(printed: str) -> str:
    """The name of a type as a catalog prints it, without its arguments: `numeric` of `numeric(18,2)`."""
    return printed.partition("(")[0]


@dataclass(frozen=True)
class ColumnBinding:
    """One source column and its exact home.

    Attributes:
        source: Source column.
        target: Target column.
        source_type: As the source's catalog prints it.
        target_type: As the target's catalog prints it.
        cast: Type that the source must cast to so that the wire form is the target's own; None for no cast.
        guards: Checks that run on the source value, first failure wins. Empty = lossless.
        on_bad_value: `fail` the chunk, or set `null` and count.
    """

    source: str
    target: str
    source_type: str
    target_type: str
    cast: str | None = None
    guards: tuple[Guard, ...] = ()
    on_bad_value: OnBadValue = "fail"

    @property
    def fidelity(self) -> Literal["lossless", "guarded"]:
        """`lossless` if every value fits by type alone."""
        return "guarded" if self.guards else "lossless"


@dataclass(frozen=True)
class ColumnContract:
    """All bindings, in the target's column order, and the unique key by target column."""

    columns: tuple[ColumnBinding, ...]
    key: tuple[str, ...]
    version: int = CONTRACT_VERSION

    def as_dict(self) -> dict[str, object]:
        """The contract as plain data; `from_dict` reads it back."""
        return {
            "version": self.version,
            "key": list(self.key),
            "columns": [
                {
                    "source": c.source,
                    "target": c.target,
                    "source_type": c.source_type,
                    "target_type": c.target_type,
                    "cast": c.cast,
                    "guards": [{"reason": g.reason, "check": g.check, "args": list(g.args)} for g in c.guards],
                    "on_bad_value": c.on_bad_value,
                }
                for c in self.columns
            ],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> ColumnContract:
        """Read back what `as_dict` wrote."""
        columns = tuple(
            ColumnBinding(
                source=c["source"],
                target=c["target"],
                source_type=c["source_type"],
                target_type=c["target_type"],
                cast=c["cast"],
                guards=tuple(Guard(g["reason"], g["check"], tuple(g["args"])) for g in c["guards"]),
                on_bad_value=c["on_bad_value"],
            )
            for c in data["columns"]  # type: ignore[attr-defined]
        )
        return cls(columns, tuple(data["key"]), data["version"])  # type: ignore[arg-type]

    @property
    def sha256(self) -> str:
        """SHA-256 over `as_dict`."""
        return sha256_of(self.as_dict())

    @property
    def source_key(self) -> tuple[str, ...]:
        """The unique key by source column; every column where there is no key, for then only the whole row names it."""
        home = {c.target: c.source for c in self.columns}
        return tuple(home[name] for name in self.key or home)

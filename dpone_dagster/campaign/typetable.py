"""Looks a pair of column types up in the table of a pair of servers. A pair without a row is refused.

`typetables` has a table for each pair of servers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dpone_dagster.campaign.chunkbounds import Bounds
from dpone_dagster.campaign.contract import ColumnType, Representation
from dpone_dagster.campaign.homes import Home, NoHome

# None is for a rule that finds out that it has no home to offer.
Rule = Callable[[ColumnType, ColumnType], Home | NoHome | None]


@dataclass(frozen=True)
class TypeTable:
    """Which type of one kind of source has its exact home in which type of one kind of target.

    Attributes:
        rules: A rule a pair of words (see `word`).
        refused: Pairs without a rule although a server has a conversion: what it would do to the value.
        represented: The rule of each form that the manifest may ask for.
        text_column: A column that takes any value's text, in words.
        mend: How to change the target's type, in words; `{source}` stands for the source's type.
        source_bounds: Which of the source's types can be cut into chunks of a kind.
        bounds: Which of the target's types can be.
        written: Those of the source's types that have a text form; None where all have one.
        no_shared_text: Types of the target whose values the two servers write differently, so that keys of such a type
            cannot be compared.
    """

    rules: Mapping[tuple[str, str], Rule]
    refused: Mapping[tuple[str, str], str]
    represented: Mapping[Representation, Rule]
    text_column: str
    mend: str
    source_bounds: Bounds
    bounds: Bounds
    written: frozenset[str] | None = None
    no_shared_text: frozenset[str] = frozenset()

    def home(self, source: ColumnType, target: ColumnType, representation: Representation | None) -> Home | NoHome:
        """The exact home of a source type in a target type.

        Args:
            source: Of the source column; a domain counts as the type that it is made of.
            target: Of the target column, with its collation.
            representation: The form that the manifest asks for.
        """
        rule = self.represented[representation] if representation else self.rules.get((word(source), word(target)))
        home = rule(source, target) if rule else None
        return self._no_home(source, target) if home is None else home

    def _no_home(self, source: ColumnType, target: ColumnType) -> NoHome:
        by_text = f"name `representation: text` under `sink.columns`, with {self.text_column} in the target"
        if self.written is not None and source.name not in self.written:
            by_text = "leave the column out by `source.columns`"
        if not built_in(source):
            return NoHome(f"{source} is defined by its own database, so {target} is not the same type", by_text)
        reason = self.refused.get((source.name, target.name))
        advice = by_text if source.name == target.name else f"{self.mend.format(source=source)}, or {by_text}"
        return NoHome(f"{source} has no exact home in {target}{f': {reason}' if reason else ''}", advice)


def word(kind: ColumnType) -> str:
    """What a table calls a type: its name, or `enum` and `array` for all of those."""
    return kind.kind if kind.kind in ("enum", "array") else kind.name


def built_in(kind: ColumnType) -> bool:
    """Whether the server itself defines the type; the others have their schema in the name."""
    return "." not in kind.name

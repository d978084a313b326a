"""Brings a stream of Arrow batches into a stage: by bulk copy, or row by row where the server refuses that."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from typing import Any

from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.mssql.bulk import BulkRefused, bulk_copy
from dpone_dagster.mssql.rowinsert import insert_batches
from dpone_dagster.mssql.session import Session
from dpone_dagster.mssql.stages import Stage
from dpone_dagster.ports.source import RowStream, Wire

_log = logging.getLogger(__name__)


class Batches:
    """A stream whose first batch has been looked at, so that nothing is made for a chunk without rows.

    Args:
        stream: Arrow batches, not begun yet.
    """

    wire: Wire = "arrow"

    def __init__(self, stream: RowStream) -> None:
        if stream.wire != "arrow":
            raise DponeError(f"rows come as {stream.wire}, not as Arrow batches")
        self.stream = stream
        self._rest: Iterator[Any] = iter(stream)
        self._first = next(self._rest, None)
        self._begun = False

    @property
    def empty(self) -> bool:
        """Whether there is no row at all."""
        return self._first is None

    @property
    def untouched(self) -> bool:
        """Whether only the first batch has been handed out, so that all of it can be handed out again."""
        return not self._begun

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain([] if self._first is None else [self._first], self._others())

    def _others(self) -> Iterator[Any]:
        for batch in self._rest:
            self._begun = True
            yield batch

    @property
    def rows(self) -> int:
        """As the stream says."""
        return self.stream.rows

    @property
    def bytes(self) -> int:
        """As the stream says."""
        return self.stream.bytes

    @property
    def nulled(self) -> dict[str, int]:
        """As the stream says."""
        return dict(self.stream.nulled)

    @property
    def digest(self) -> str | None:
        """As the stream says."""
        return self.stream.digest


def fill_stage(session: Session, stage: Stage, batches: Batches) -> int:
    """Write every batch into an empty stage; returns how many rows were sent.

    Args:
        session: The lane's session, not in a transaction.
        stage: Its own.
        batches: Not begun yet but for the first one.
    """
    try:
        return bulk_copy(session, stage, batches)
    except BulkRefused as refused:
        if not batches.untouched:
            raise
        _log.warning("rows go to %s one by one, which is exact but slower: %s", stage.table, refused.message)
    renamed = (batch.rename_columns([stage.columns[name] for name in batch.schema.names]) for batch in batches)
    return insert_batches(session, stage.name, renamed)

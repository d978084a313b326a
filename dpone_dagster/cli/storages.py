"""Dagster's storages of SQLite files, opened once a process and written in fewer transactions; the files are the same.

Dagster opens a file for each event, and looks through its hundred migrations when a process opens one first. The last
to close a file copies the log of its transactions into it and deletes that log, which takes longer than the event:
https://www.sqlite.org/wal.html#ckpt
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Self

from alembic.runtime.migration import MigrationContext
from dagster import AssetKey, DagsterEventType, EventLogEntry
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.runs import SqliteRunStorage
from dagster._core.storage.schedules import SqliteScheduleStorage
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS, create_db_conn_string
from dagster._serdes import ConfigurableClassData
from sqlalchemy import create_engine, func, inspect, select
from sqlalchemy.engine import Connection

_INDEX = "index"
# What a campaign has one of for each partition; Dagster counts these among what may be written in batches.
_IN_BATCHES = (DagsterEventType.ASSET_MATERIALIZATION, DagsterEventType.ASSET_MATERIALIZATION_PLANNED)


class File:
    """One database, for one thread at a time; open from its first use on.

    Args:
        url: SQLAlchemy's.
    """

    def __init__(self, url: str) -> None:
        arguments = {"timeout": SQLITE_BUSY_TIMEOUT_SECONDS, "check_same_thread": False}
        self._engine = create_engine(url, pool_size=1, max_overflow=0, connect_args=arguments)
        self._lock = threading.Lock()

    def is_made(self, *tables: str) -> bool:
        """Whether Dagster has made its tables: the version is what it writes last.

        Args:
            tables: Others that have to be there.
        """
        if not Path(self._engine.url.database or "").exists():
            return False
        with self.transaction() as connection:
            if MigrationContext.configure(connection).get_current_revision() is None:
                return False
            return set(tables).issubset(inspect(connection).get_table_names())

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A transaction, committed at its end."""
        with self._lock, self._engine.begin() as connection:
            yield connection

    def close(self) -> None:
        """Close it."""
        self._engine.dispose()


class EventLog(SqliteEventLogStorage):
    """The events: a file a run, and the index of all assets."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._files: dict[str, File] = {}
        self._opening = threading.Lock()
        super().__init__(base_dir, inst_data)

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> Self:
        """As Dagster makes it from settings."""
        return cls(inst_data=inst_data, **config_value)

    def run_connection(self, run_id: str | None = None) -> contextlib.AbstractContextManager[Connection]:
        """A transaction in a run's file."""
        return self._file(run_id or "").transaction()

    def index_connection(self) -> contextlib.AbstractContextManager[Connection]:
        """A transaction in the index."""
        return self._file(_INDEX).transaction()

    def _file(self, shard: str) -> File:
        """Of the runs' files, only the one that was asked for last stays open: there may be thousands."""
        with self._opening:
            if shard not in self._files:
                if shard != _INDEX:
                    for other in self._files.keys() - {_INDEX}:
                        self._files.pop(other).close()
                self._files[shard] = self._opened(shard)
            return self._files[shard]

    def _opened(self, shard: str) -> File:
        file = File(self.conn_string_for_shard(shard))
        if not file.is_made():
            with super().run_connection(shard):  # Dagster makes it
                pass
        return file

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        """Store events in their order, those of one kind together.

        Args:
            events: Of one run.
        """
        for kind, group in groupby(events, key=lambda event: event.dagster_event_type):
            together = list(group)
            if kind in _IN_BATCHES:
                self._store_together(together)
            else:
                super().store_event_batch(together)

    def _store_together(self, events: Sequence[EventLogEntry]) -> None:
        """As `store_event` one by one: of an asset's own row, the last event is what stays."""
        insert = self.prepare_insert_event_batch(events)
        with self.run_connection(events[0].run_id) as connection:
            connection.execute(insert)
        with self.index_connection() as connection:
            connection.execute(insert)
            last = connection.execute(select(func.last_insert_rowid())).scalar_one()
        numbers = range(last - len(events) + 1, last + 1)
        self.store_asset_event_tags(events, list(numbers))
        latest: dict[AssetKey | None, tuple[EventLogEntry, int]] = {}
        for event, number in zip(events, numbers, strict=True):
            latest[event.get_dagster_event().asset_key] = (event, number)
        for event, number in latest.values():
            self.store_asset_event(event, number)

    def dispose(self) -> None:
        """Close the files."""
        super().dispose()
        for file in self._files.values():
            file.close()


class Runs(SqliteRunStorage):
    """The runs."""

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> Self:
        """As Dagster makes it from settings."""
        url = create_db_conn_string(config_value["base_dir"], "runs")
        if _made(url, "instance_info"):
            return cls(url, inst_data)
        return cls.from_local(inst_data=inst_data, **config_value)


class Schedules(SqliteScheduleStorage):
    """The schedules, which no run uses."""

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> Self:
        """As Dagster makes it from settings."""
        url = create_db_conn_string(config_value["base_dir"], "schedules")
        if not _made(url):
            cls.from_local(inst_data=inst_data, **config_value)
        return cls(url, inst_data)


def _made(url: str, *tables: str) -> bool:
    file = File(url)
    try:
        return file.is_made(*tables)
    finally:
        file.close()

"""Moves the rows of one table into another by the product's own contract, source and COPY."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import psycopg
from psycopg import sql

from dpone_dagster.campaign.contract import ColumnContract, ColumnOption
from dpone_dagster.campaign.matching import match_columns
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.plan import ChunkSpec, Plan
from dpone_dagster.campaign.typetable_postgres import POSTGRES
from dpone_dagster.campaign.watermark import Anchor
from dpone_dagster.ports.source import ChunkRead
from dpone_dagster.postgres.columns import read_columns
from dpone_dagster.postgres.session import Session
from dpone_dagster.postgres.source import PostgresSource

PLAN = Plan(ChunkSpec("integer", "id", "-1000", "1000", "2001"))


@dataclass
class Transfer:
    """One source table, one target table, one contract. Both have an integer key `id` from -1000 to 1000."""

    source_url: str
    source_table: TableRef
    target_url: str
    target_table: TableRef
    options: Mapping[str, ColumnOption] = field(default_factory=dict)
    wanted: tuple[str, ...] | None = None
    anchor: Anchor | None = None

    def match(self, source: PostgresSource) -> tuple[ColumnContract, str]:
        """The contract and the source's digest."""
        described = source.describe(self.source_table, self.wanted)
        session = Session(self.target_url, "test")
        try:
            found = read_columns(session, self.target_table)
        finally:
            session.close()
        assert found is not None
        contract = match_columns(
            described.columns,
            found[2],
            options=self.options,
            wanted=self.wanted,
            key=("id",),
            find_home=POSTGRES.home,
        )
        return ColumnContract.from_dict(contract.as_dict()), described.digest

    def read_of(self, contract: ColumnContract, digest: str, *, digested: bool = False) -> ChunkRead:
        """The one chunk."""
        return ChunkRead(
            table=self.source_table,
            chunk=PLAN.chunk(0),
            chunk_column="id",
            contract=contract,
            source_digest=digest,
            anchor=self.anchor,
            digest_key="00ff",
            wire="pgcopy",
            label="test */ label",
            digested=digested,
        )

    def run(self) -> Mapping[str, int]:
        """Load, prove that source and target have one digest, and return what was set to NULL."""
        source = PostgresSource(self.source_url, "test")
        try:
            contract, digest = self.match(source)
            with source.read_chunk(self.read_of(contract, digest, digested=True)) as stream:
                assert self.copy(contract, stream) == stream.rows
                nulled = stream.nulled
                assert stream.digest == self.target_digest(contract)
            assert source.content_digest(self.source_table, contract) == self.target_digest(contract)
            return nulled
        finally:
            source.close()

    def load(self, source: PostgresSource) -> Mapping[str, int]:
        """Load the one chunk and return what was set to NULL."""
        contract, digest = self.match(source)
        with source.read_chunk(self.read_of(contract, digest)) as stream:
            assert self.copy(contract, stream) == stream.rows
            return stream.nulled

    def copy(self, contract: ColumnContract, stream: object) -> int:
        """Write the stream as it is; returns the number of rows."""
        names = sql.SQL(", ").join(sql.Identifier(column.target) for column in contract.columns)
        table = sql.Identifier(self.target_table.schema, self.target_table.name)
        session = Session(self.target_url, "test")
        try:
            cursor = session.connection.cursor()
            with cursor.copy(sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(table, names)) as copy:
                for block in stream:  # type: ignore[attr-defined]
                    copy.write(block)
            return cursor.rowcount
        finally:
            session.close()

    def target_digest(self, contract: ColumnContract) -> str:
        """The digest of the whole target."""
        from dpone_dagster.postgres.digests import content_digest

        session = Session(self.target_url, "test")
        try:
            return content_digest(session, self.target_table, contract)
        finally:
            session.close()


def texts(url: str, table: TableRef, expression: str = "v") -> dict[int, str | None]:
    """Text forms of one expression by `id`, as a session of the product sees them."""
    session = Session(url, "test")
    try:
        query = f"SELECT id, ({expression})::text FROM "
        name = sql.Identifier(table.schema, table.name).as_string(None)
        rows = session.connection.execute((query + name).encode())
        return dict(rows.fetchall())
    finally:
        session.close()


def execute(url: str, *statements: str) -> None:
    """Run statements, each a transaction of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)

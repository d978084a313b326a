"""The DDL of shadows and swaps, word by word: it is never tried on a columnstore or a compressed table elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from dpone_dagster.campaign.names import TableRef
from dpone_dagster.mssql import ddl
from dpone_dagster.mssql.facts import Catalog, IndexFacts, StatisticsFacts, index_of

TABLE = TableRef("landing", "or]d'ers")


def column(name: str, type_name: str, **facts: Any) -> dict[str, Any]:
    return {
        "name": name,
        "type_name": type_name,
        "max_length": 4,
        "precision": 0,
        "scale": 0,
        "collation_name": None,
        "is_nullable": True,
        "is_ansi_padded": False,
        **facts,
    }


COLUMNS = (
    column("id", "uniqueidentifier", is_nullable=False),
    column("a]b", "nvarchar", max_length=100, collation_name="Latin1_General_BIN2"),
    column("note", "nvarchar", max_length=-1, collation_name="Latin1_General_100_CI_AS"),
    column("amount", "decimal", precision=38, scale=10),
    column("at", "datetimeoffset", scale=6),
    column("bytes", "varbinary", max_length=16),
)


def index_row(**facts: Any) -> dict[str, Any]:
    return {
        "name": "ix",
        "index_id": 2,
        "type": 2,
        "is_unique": False,
        "has_filter": False,
        "filter_definition": None,
        "fill_factor": 0,
        "is_padded": False,
        "no_recompute": False,
        "allow_row_locks": True,
        "allow_page_locks": True,
        "compression": "NONE",
        **facts,
    }


def part(name: str, ordinal: int, **facts: Any) -> dict[str, Any]:
    return {
        "index_id": 2,
        "column_name": name,
        "key_ordinal": ordinal,
        "is_descending_key": False,
        "is_included_column": ordinal == 0,
        **facts,
    }


KEYS = [part("id", 1), part("a]b", 2, is_descending_key=True), part("note", 0), part("amount", 0)]
PLAIN = index_of(index_row(), KEYS)
ROWSTORE = index_of(index_row(type=1, index_id=2, is_unique=True, compression="PAGE"), KEYS[:1])
COLUMNSTORE = index_of(index_row(type=5, compression="COLUMNSTORE_ARCHIVE", compression_delay=60), KEYS[2:])


def catalog(*indexes: IndexFacts, heap: str | None = None) -> Catalog:
    return Catalog(TABLE, 1, COLUMNS, "TABLE", heap, indexes, (), True, ())


def test_a_heap() -> None:
    assert list(ddl.create_table(TABLE, catalog(heap="PAGE"))) == [
        "/* dpone:create_shadow */ CREATE TABLE [landing].[or]]d'ers] (\n"
        "    [id] uniqueidentifier NOT NULL,\n"
        "    [a]]b] nvarchar(50) COLLATE Latin1_General_BIN2 NULL,\n"
        "    [note] nvarchar(max) COLLATE Latin1_General_100_CI_AS NULL,\n"
        "    [amount] decimal(38,10) NULL,\n"
        "    [at] datetimeoffset(6) NULL,\n"
        "    [bytes] varbinary(16) NULL\n"
        ")\nWITH (DATA_COMPRESSION = PAGE)",
        "/* dpone:lock_escalation */ ALTER TABLE [landing].[or]]d'ers] SET (LOCK_ESCALATION = DISABLE)",
    ]


@pytest.mark.parametrize(
    ("stored", "statement"),
    [
        (
            ROWSTORE,
            "/* dpone:build_index */ CREATE UNIQUE CLUSTERED INDEX [ix] ON [landing].[or]]d'ers] ([id] ASC) "
            "WITH (DATA_COMPRESSION = PAGE)",
        ),
        (
            COLUMNSTORE,
            "/* dpone:build_index */ CREATE CLUSTERED COLUMNSTORE INDEX [ix] ON [landing].[or]]d'ers] "
            "WITH (COMPRESSION_DELAY = 60, DATA_COMPRESSION = COLUMNSTORE_ARCHIVE)",
        ),
    ],
)
def test_what_stores_the_rows_is_made_before_the_load(stored: IndexFacts, statement: str) -> None:
    made = list(ddl.create_table(TABLE, catalog(stored, PLAIN)))
    assert len(made) == 3
    assert "WITH" not in made[0]
    assert made[1] == statement


def test_an_index_with_every_option() -> None:
    every = index_of(
        index_row(
            is_unique=True,
            has_filter=True,
            filter_definition="([a]]b] IS NOT NULL)",
            fill_factor=80,
            is_padded=True,
            no_recompute=True,
            allow_row_locks=False,
            allow_page_locks=False,
            optimize_for_sequential_key=True,
            compression="ROW",
        ),
        KEYS,
    )
    assert ddl.create_index(TABLE, every) == (
        "/* dpone:build_index */ CREATE UNIQUE NONCLUSTERED INDEX [ix] ON [landing].[or]]d'ers] "
        "([id] ASC, [a]]b] DESC) INCLUDE ([amount], [note]) WHERE ([a]]b] IS NOT NULL) "
        "WITH (ALLOW_PAGE_LOCKS = OFF, ALLOW_ROW_LOCKS = OFF, DATA_COMPRESSION = ROW, FILLFACTOR = 80, "
        "OPTIMIZE_FOR_SEQUENTIAL_KEY = ON, PAD_INDEX = ON, STATISTICS_NORECOMPUTE = ON)"
    )
    assert ddl.create_index(TABLE, PLAIN) == (
        "/* dpone:build_index */ CREATE NONCLUSTERED INDEX [ix] ON [landing].[or]]d'ers] "
        "([id] ASC, [a]]b] DESC) INCLUDE ([amount], [note])"
    )


def test_statistics_that_somebody_made() -> None:
    made = StatisticsFacts("st", ("a]b", "id"), "([id] IS NOT NULL)", no_recompute=True)
    assert ddl.create_statistics(TABLE, made) == (
        "/* dpone:build_statistics */ CREATE STATISTICS [st] ON [landing].[or]]d'ers] ([a]]b], [id]) "
        "WHERE ([id] IS NOT NULL) WITH FULLSCAN, NORECOMPUTE"
    )
    assert ddl.drop_statistics(TABLE, "st") == "/* dpone:drop_statistics */ DROP STATISTICS [landing].[or]]d'ers].[st]"


def test_a_new_name_is_bare_and_a_place_is_quoted() -> None:
    assert ddl.rename_table(TABLE, "a.b's") == (
        "EXEC /* dpone:rename_table */ sp_rename @objname = N'[landing].[or]]d''ers]', @newname = N'a.b''s', "
        "@objtype = N'OBJECT'"
    )
    assert ddl.add_property(TABLE, "dpone_shadow_of", "it's") == (
        "EXEC /* dpone:add_property */ sp_addextendedproperty @name = N'dpone_shadow_of', @value = N'it''s', "
        "@level0type = N'SCHEMA', @level0name = N'landing', @level1type = N'TABLE', @level1name = N'or]d''ers'"
    )
    assert ddl.drop_property(TABLE, "x").endswith("@level1name = N'or]d''ers'")


def test_the_rest() -> None:
    assert ddl.drop_index(TABLE, PLAIN) == "/* dpone:drop_index */ DROP INDEX [ix] ON [landing].[or]]d'ers]"
    assert ddl.seal_columnstore(TABLE, COLUMNSTORE) == (
        "/* dpone:seal_columnstore */ ALTER INDEX [ix] ON [landing].[or]]d'ers] "
        "REORGANIZE WITH (COMPRESS_ALL_ROW_GROUPS = ON)"
    )


def test_the_contract_tells_every_difference_of_an_index() -> None:
    rows = [
        index_row(),
        index_row(is_unique=True),
        index_row(type=1),
        index_row(has_filter=True, filter_definition="([id]>(1))"),
        index_row(fill_factor=90),
        index_row(compression="PAGE"),
        index_row(allow_page_locks=False),
        index_row(optimize_for_sequential_key=True),
        index_row(no_recompute=True),
        index_row(name="other"),
    ]
    contracts = [str(catalog().index_contract(index_of(row, KEYS))) for row in rows]
    contracts += [
        str(catalog().index_contract(index_of(index_row(), parts))) for parts in (KEYS[:1], KEYS[:2], KEYS[:3])
    ]
    assert len(set(contracts)) == len(contracts)


def test_a_server_that_changes_names_is_compared_without_them() -> None:
    one, other = index_of(index_row(name="one"), KEYS), index_of(index_row(name="other"), KEYS)
    nameless = Catalog(TABLE, 1, COLUMNS, "TABLE", None, (one,), (), False, ())
    assert nameless.index_contract(one) == nameless.index_contract(other)
    assert catalog().index_contract(one) != catalog().index_contract(other)

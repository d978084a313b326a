"""Every statement of T-SQL that the product sends, made without a server.

Those of the `.sql` files come from there, with every part filled in; those that Python writes are made by the functions
that write them. Live tests hold that nothing is missing (`tests/tsql.py`).
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args
from unittest import mock

from dpone_dagster import mssql
from dpone_dagster.campaign.chunkbounds import MSSQL_CHUNK_BOUNDS, MSSQL_SOURCE_BOUNDS
from dpone_dagster.campaign.contract import Column, ColumnBinding, ColumnContract, ColumnType, Guard, OnBadValue
from dpone_dagster.campaign.deletion import DeleteMark
from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.campaign.homes import Home
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.plan import Chunk, ChunkKind
from dpone_dagster.campaign.typetables import Server, type_table
from dpone_dagster.mssql import changes, ddl
from dpone_dagster.mssql.bulk import context_statement
from dpone_dagster.mssql.changes import MssqlChanges
from dpone_dagster.mssql.chunkrange import in_chunk
from dpone_dagster.mssql.digests import Digester, known_texts_query
from dpone_dagster.mssql.facts import Catalog, IndexFacts, StatisticsFacts
from dpone_dagster.mssql.progress import progress_batch
from dpone_dagster.mssql.queries import filled, load
from dpone_dagster.mssql.quoting import literal
from dpone_dagster.mssql.rowread import RowRead
from dpone_dagster.ports.changes import ChangeTarget
from dpone_dagster.ports.source import Wire
from tests.integration.mssql_source_cases import TO_MSSQL, TO_POSTGRES, Case, type_of

TABLE = TableRef("landing", "or]d'ers")
# What stands for a part that is more than one name.
_PARTS = {
    "assignments": "[validation] = s.[c1], [a] = s.[c0]",
    "columns": "[a], [b]",
    "values": "s.[c0], s.[c1]",
    "marks": "?, CAST(? AS datetime2(6)), CAST(? AS datetime2(6)), ?",
    "old": "?, ?",
    "states": "?, ?",
    "loadable": "?, ?",
    "only": "?, ?",
    "names": "N'a', N'b'",
    "own": "N'a', N'b'",
    "owner": "N'a'",
    "generation": "N'b'",
    "id": "1",
    "session": "61",
    "key": "[a], [b]",
    "any_null": "[a] IS NULL OR [b] IS NULL",
    "none_null": "[a] IS NOT NULL AND [b] IS NOT NULL",
    "milliseconds": "1",
    "match": "t.[a] = s.[c0] AND t.[b] = s.[c1]",
    "table": "[landing].[orders]",
    "stage": "[landing].[stage]",
    "in_slice": "1 = 1",
    "target": "[landing].[orders]",
    "rows": "[landing].[stage]",
    "more": "[landing].[stage]",
    "keys": "[landing].[stage]",
    "extra": "[#dpone_extra_keys]",
    "named": "N'[landing].[orders]'",
    "label": "7777 chunk=1 epoch=1",
    "rename_there": ddl.rename_table(TABLE, "x"),
    "rename_back": ddl.rename_table(TABLE, "y"),
}
_STAGED = {"columns": "t.[a] AS [c0], t.[b] AS [c1]"}
_PER_STATEMENT: Mapping[tuple[str, str], Sequence[Mapping[str, str]]] = {
    ("changes.sql", "stage_more"): [{"match": "r.[a] = m.[c0] AND r.[b] = m.[c1]"}],
    ("ledger.sql", "move"): [{"assignments": ", [validation] = ?, [receipt_id] = ?"}, {"assignments": ""}],
    ("chunkwrite.sql", "create_stage"): [_STAGED],
    ("tables.sql", "count_surplus"): [
        {"predicate": "1 = 1", "key": "[a]"},
        {"predicate": "([a] IS NOT NULL)", "key": "[a], [b]"},
    ],
}
# Made by Python below, of expressions; and parts of other statements.
ELSEWHERE = {
    *(("changes.sql", name) for name in load("changes.sql") if name != "stage_more"),
    ("digests.sql", "key_buckets"),
    ("digests.sql", "row_buckets"),
    ("digests.sql", "content_digest"),
    ("digests.sql", "known_text"),
    ("catalog.sql", "dependents"),
    ("schema.sql", "create_schema"),
    *(("source.sql", name) for name in ("rows", "refused", "has_rows", "count_outside")),
}
KINDS = {
    "id": "uniqueidentifier",
    "n": "bigint",
    "amount": "decimal",
    "paid": "bit",
    "day": "date",
    "at": "time",
    "made": "datetime2",
    "seen": "datetimeoffset",
    "share": "float",
    "ratio": "real",
    "pad": "nchar",
    "note]x": "nvarchar",
    "data": "varbinary",
}


def statements() -> Iterator[str]:
    """All of them."""
    for file_name, name in named():
        if (file_name, name) not in ELSEWHERE:
            yield from of_file(file_name, name)
    yield from _of_digests()
    yield from _of_changes()
    yield from _of_slices()
    yield from _of_source()
    yield from _of_ddl()
    yield from _of_catalog()
    yield context_statement("77 chunk=1 epoch=2")
    created = load("schema.sql")["create_schema"]
    yield f"EXEC /* dpone:create_state_schema */ ({literal(created)})"
    yield f"{load('session.sql')['settings']};\n{load('session.sql')['who']}"
    for summed in (["tallied"], ["beside_blocks"], ["tallied", "beside_blocks"]):
        yield progress_batch([*summed, "begun"], "system")
    yield from _of_row_inserts()


def named() -> Iterator[tuple[str, str]]:
    """Every block of every file."""
    for path in sorted(Path(mssql.__file__).parent.glob("*.sql")):
        yield from ((path.name, name) for name in load(path.name))


def of_file(file_name: str, name: str) -> Iterator[str]:
    """One block, its parts filled in."""
    text = load(file_name, 'state "100%s"')[name]
    parts = {part: _PARTS.get(part, "[x]") for part in re.findall(r"\{(\w+)\}", text)}
    for more in _PER_STATEMENT.get((file_name, name), [{}]):
        yield filled(text, **{**parts, **more})


def _of_digests() -> Iterator[str]:
    yield known_texts_query()
    # Each type by itself, and after each other one: which follows which is all that differs.
    for utf8 in (True, False):
        digester = Digester(TABLE, KINDS, utf8)
        for columns in ([name] for name in KINDS):
            yield digester.content_digest_query(columns)
        yield digester.content_digest_query(list(KINDS))


def _of_changes() -> Iterator[str]:
    marks = (None, DeleteMark("gone", "flag"), DeleteMark("gone", "time"))
    for utf8, mark, name in itertools.product((True, False), marks, KINDS):
        if mark is not None and name != "id":
            continue  # a mark changes nothing about a type
        for columns in ([name], [name, "id"], ["id", name], [name, "seen"], [name, "note]x"]):
            told = Told(utf8)
            with mock.patch.object(changes, "Session", return_value=told):
                _change(MssqlChanges(told), columns, mark)  # type: ignore[arg-type]
            yield from told.told


def _of_slices() -> Iterator[str]:
    text, parts = load("chunkwrite.sql")["delete_slice"], {"label": _PARTS["label"], "table": _PARTS["table"]}
    for kind, types in MSSQL_CHUNK_BOUNDS.items():
        for name, chunk in itertools.product(types, _CHUNKS[kind]):
            column = Column("a]b", ColumnType(name, (18, 0) if name in ("decimal", "numeric") else ()), False)
            yield filled(text, in_slice=in_chunk([column], "a]b", chunk), **parts)


# One a check, and one a cast, of a source column of the name's own type.
_BOUND = [
    ("n", "bigint", "int", Guard("range", "range", (-5, 5))),
    ("amount", "decimal(18,2)", "decimal(9,0)", Guard("range", "digits", (9,))),
    ("amount", "decimal(18,2)", "decimal(9,0)", Guard("precision", "scale", (0,))),
    ("made", "datetime2(7)", "datetime2(6)", Guard("precision", "nanoseconds", (1000,))),
    ("seen", "datetimeoffset(7)", "datetimeoffset(6)", Guard("offset", "offset")),
    ("note]x", "nvarchar(max)", None, Guard("length", "utf16", (9,))),
    ("note]x", "nvarchar(max)", "nvarchar(max)", Guard("length", "utf8", (9,))),
    ("note]x", "nvarchar(max)", None, Guard("codepage", "ascii")),
    ("note]x", "nvarchar(max)", None, Guard("surrogate", "surrogate")),
    ("note]x", "nvarchar(max)", None, Guard("nul", "nul")),
    ("data", "varbinary(9)", None, Guard("length", "octets", (0, 5))),
    *(("id", kind, "text", None) for kind in ("uniqueidentifier", "money", "date", "datetime2(7)", "int")),
    *((name, kind, None, None) for name, kind in KINDS.items()),
]


def _of_source() -> Iterator[str]:
    bindings = [
        ColumnBinding(name, "c", kind, target, cast, (guard,) if guard else (), policy)
        for name, kind, cast, guard in _BOUND
        for target in ("any", "char(3)")
        for policy in get_args(OnBadValue)
    ]
    several = [binding for binding in bindings if binding.guards][::3]
    for utf8, columns in itertools.product((True, False), [*([b, b] for b in bindings), several]):
        yield from _of_read(columns, "[a] >= CAST(N'1' AS bigint)", utf8=utf8)
    for policy in get_args(OnBadValue):
        for binding in _bindings_of_pairs(policy):
            yield from itertools.islice(_of_read([binding, binding], "1 = 1", utf8=True), 2)
    guarded = [binding for binding in bindings if binding.guards][:1]
    for kind, types in MSSQL_SOURCE_BOUNDS.items():
        for name, chunk in itertools.product(types, _CHUNKS[kind]):
            column = Column("a]b", ColumnType(name, (18, 0) if name in ("decimal", "numeric") else ()), False)
            rows = in_chunk([column], "a]b", chunk)
            yield from _of_read(guarded, rows, utf8=True)
            for statement in ("has_rows", "count_outside"):
                yield filled(load("source.sql")[statement], table=_PARTS["table"], column="[a]", rows=rows)


def _bindings_of_pairs(policy: OnBadValue) -> Iterator[ColumnBinding]:
    servers: tuple[tuple[Server, Sequence[Case]], ...] = (("postgres", TO_POSTGRES), ("mssql", TO_MSSQL))
    for server, cases in servers:
        for case in cases:
            home = type_table("mssql", server).home(type_of(case.source), type_of(case.target), case.representation)
            assert isinstance(home, Home)
            yield ColumnBinding("id", "c", case.source, case.target, home.cast, home.guards, policy)


def _of_read(columns: Sequence[ColumnBinding], rows: str, *, utf8: bool) -> Iterator[str]:
    contract = ColumnContract(tuple(columns), ("c",))
    read = RowRead(TABLE, contract, rows, Digester(TABLE, KINDS, utf8), "00ff", "7 chunk=1")
    yield read.statement()
    yield read.digest_statement()
    yield from map(read.refused_statement, range(len(read.projection.refusals)))


_CHUNKS: Mapping[ChunkKind, Sequence[Chunk]] = {
    "uuid": [Chunk(0, "uuid", "0", "1", False), Chunk(0, "uuid", "0", "1", True)],
    "integer": [Chunk(0, "integer", "0", "1", True)],
    "date": [Chunk(0, "date", "2024-01-01", end, False) for end in ("2024-02-01", "10000-01-01")],
    "timestamp": [Chunk(0, "timestamp", "2024-01-01T00:00:00+00:00", "2024-02-01T00:00:00+00:00", False)],
}


def _change(made: MssqlChanges, columns: list[str], mark: DeleteMark | None) -> None:
    contract = ColumnContract(tuple(ColumnBinding(name, name, "any", "any") for name in columns), tuple(columns))
    into = ChangeTarget(TABLE, contract, mark)
    with contextlib.suppress(DponeError):  # a float is no key
        made.key_buckets(into, 16)
        made.row_buckets(into, 16)
    made.stage_keys(into, Nothing(), 16, [])
    bench = made._bench(TABLE)
    made._rows = bench.make(columns, TABLE)
    bench.clone(made._rows)
    made.stage_keys(into, Nothing(), 16, [1, 2])
    made.delete_unmatched(into)
    made.upsert(into)
    made.replace(into)
    if mark is None:
        made.upsert_staged(into, made._rows)
        made.count_arrived(into, made._rows)
    made._put_away()


def _of_ddl() -> Iterator[str]:
    keys = (("id", False), ("a]b", True))
    plain = IndexFacts("ix", 2, False, keys, ("note", "amount"), None, {})
    every = IndexFacts("ix", 2, True, keys, ("note",), "([a] IS NOT NULL)", {"FILLFACTOR": 80, "PAD_INDEX": "ON"})
    unique = IndexFacts("ix", 2, True, keys, (), None, {})
    turned = IndexFacts("ix", 2, True, keys[::-1], (), None, {})
    clustered = IndexFacts("ix", 1, True, keys, (), None, {"DATA_COMPRESSION": "PAGE", "ALLOW_ROW_LOCKS": "OFF"})
    columnstore = IndexFacts("ix", 5, False, (), (), None, {"COMPRESSION_DELAY": 60, "DATA_COMPRESSION": "COLUMNSTORE"})
    for index in (plain, every, unique, turned, clustered, columnstore):
        yield ddl.create_index(TABLE, index)
    for stored, heap in ((None, "NONE"), (None, "PAGE"), (clustered, None), (columnstore, None)):
        indexes = () if stored is None else (stored,)
        yield from ddl.create_table(TABLE, Catalog(TABLE, 1, _COLUMNS, "TABLE", heap, indexes, (), True, ()))
    yield ddl.lock_escalation(TABLE, "TABLE")
    yield ddl.lock_escalation(TABLE, "AUTO")
    yield ddl.drop_index(TABLE, plain)
    for predicate, still in ((None, False), ("([a] IS NOT NULL)", True)):
        yield ddl.create_statistics(TABLE, StatisticsFacts("st", ("a]b", "id"), predicate, still))
    yield ddl.drop_statistics(TABLE, "st")
    yield ddl.seal_columnstore(TABLE, columnstore)
    yield ddl.rename_table(TABLE, "it's")
    yield ddl.add_property(TABLE, "dpone_shadow_of", "it's")
    yield ddl.drop_property(TABLE, "dpone_shadow_of")
    yield ddl.drop_table(TABLE)


def _row(name: str, type_name: str, **facts: Any) -> dict[str, Any]:
    nothing = {"max_length": 4, "precision": 0, "scale": 0, "collation_name": None, "is_nullable": True}
    return {"name": name, "type_name": type_name, **nothing, **facts}


_COLUMNS = tuple(
    _row(f"{kind}{nullable}", kind, max_length=length, precision=18, scale=2, is_nullable=nullable, **more)
    for nullable in (True, False)
    for kind, length, more in (
        *((kind, 8, {}) for kind in ("uniqueidentifier", "bit", "int", "smallint", "tinyint", "bigint", "date")),
        *((kind, 8, {}) for kind in ("float", "real", "decimal", "numeric", "time", "datetime2", "datetimeoffset")),
        *((kind, 16, {}) for kind in ("binary", "varbinary")),
        ("varbinary", -1, {}),
        *((kind, 16, {"collation_name": "Latin1_General_BIN2"}) for kind in ("char", "varchar", "nchar", "nvarchar")),
        ("nvarchar", -1, {"collation_name": "Latin1_General_BIN2"}),
    )
)


def _of_catalog() -> Iterator[str]:
    texts = load("catalog.sql")
    parts = [next(of_file("catalog.sql", name)) for name in texts if name.startswith("dependent_")]
    block = {name: next(of_file("catalog.sql", name)) for name in texts if not name.startswith("dependent_")}
    head = ";\n".join(block[name] for name in ("named", "object", "table", "columns", "indexes", "index_columns"))
    for statistics in ("", f";\n{block['statistics']}"):
        yield head + statistics
        for chosen in (parts, parts[::-1], *([part] for part in parts)):
            lost = filled(texts["dependents"], parts="\nUNION ALL\n".join(chosen))
            yield ";\n".join([head + statistics, lost, block["sees_everything"], block["generation"]])
    yield f"{block['views']};\n{block['keeps_index_names']}"


def _of_row_inserts() -> Iterator[str]:
    """One statement for each type before each other one; none where the drivers are not installed."""
    try:
        import pyarrow as pa

        from dpone_dagster.mssql.driver import load_pyodbc
        from dpone_dagster.mssql.rowinsert import insert_batches

        load_pyodbc()
    except Exception:  # noqa: BLE001 - live tests have them, and hold the corpus complete
        return
    plain = pa.int32()
    for kind in (pa.int32(), pa.date32(), pa.time64("us"), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.uuid()):
        for kinds in ([kind], [kind, kind], [kind, plain], [plain, kind]):
            told = Told()
            columns = [pa.nulls(2, each) for each in kinds]
            batch = pa.record_batch(columns, names=[f"c{number}" for number in range(len(kinds))])
            insert_batches(told, "[landing].[stage]", [batch])  # type: ignore[arg-type]
            yield from told.told


class Nothing:
    """A stream without rows."""

    wire: Wire = "arrow"
    rows = bytes = 0
    nulled: Mapping[str, int] = MappingProxyType({})

    def __iter__(self) -> Iterator[Any]:
        return iter(())


class Told:
    """Takes the statements that a session would send."""

    in_transaction = True
    address = purpose = ""

    def __init__(self, utf8: bool = True) -> None:
        self.told: list[str] = []
        self._utf8 = utf8

    def rows(self, statement: str, *values: object, seconds: int = 0) -> list[tuple[Any, ...]]:
        self.told.append(statement)
        return list(KINDS.items()) if "dpone:column_types" in statement else []

    def value(self, statement: str, *values: object, seconds: int = 0) -> Any:
        self.told.append(statement)
        if "dpone:hash_probe" in statement:
            return hashlib.sha256(str(values[0]).encode("utf-8" if self._utf8 else "utf-16-le")).digest()
        return 0

    def changed(self, statement: str, *values: object, seconds: int = 0) -> int:
        self.told.append(statement)
        return 0

    execute = changed

    def changed_by(self, statement: str, sizes: object, values: object) -> int:
        return self.changed(statement)

    def after_transaction(self, tidy: object) -> None:
        pass

    def close(self) -> None:
        pass

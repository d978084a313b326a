"""The DDL of a shadow and of a swap, as text: what is said, never when. Names are quoted here and by psycopg only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import LiteralString

from psycopg import sql

from dpone_dagster.campaign.names import TableRef, derived_name, digest_of
from dpone_dagster.postgres.catalog import Catalog, ColumnFacts, IndexFacts, IndexKey, identifier

_OWNER_KEY = "dpone_shadow_of"
_REPLICA_IDENTITY: dict[str, LiteralString] = {"d": "DEFAULT", "n": "NOTHING", "f": "FULL"}


def carried_name(table: TableRef, live_name: str) -> str:
    """What an index of the live table is called on its shadow or backup: found from the two names alone."""
    return derived_name(live_name, "index", digest_of(str(table), live_name))


def owner_marker(run_key: str) -> str:
    """The shadow's comment while it is loaded.

    The mark lives on the table itself and not in a state table, so that it goes wherever the table goes and is gone
    when the table is: a table that somebody else creates under the same name never inherits it.
    """
    return json.dumps({_OWNER_KEY: run_key})


def marked_owner(comment: str | None) -> str:
    """The run key in a table's comment; empty if it is not a shadow's mark."""
    try:
        mark = json.loads(comment or "")
    except ValueError:
        return ""
    owner = mark.get(_OWNER_KEY) if isinstance(mark, dict) else None
    return owner if isinstance(owner, str) else ""


def create_table(shadow: TableRef, live: Catalog, server_version: int) -> Iterator[sql.Composed]:
    """The statements that make an empty shadow with everything that the live table's `loadable()` tells."""
    # LIKE copies types, collations and NOT NULL with their constraints' names.
    compression = sql.SQL(" INCLUDING COMPRESSION" if server_version >= 140000 else "")
    yield sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING DEFAULTS INCLUDING STORAGE{}) /* dpone:create_shadow */").format(
        identifier(shadow), identifier(live.table), compression
    )
    options = [*_options(live.relation.options), *_options(live.relation.toast_options, "toast")]
    if options:
        yield sql.SQL("ALTER TABLE {} SET ({})").format(identifier(shadow), sql.SQL(", ").join(options))
    for column in live.columns:
        yield from _column_settings(shadow, column)
    # Here and not at the swap, so that a right that the login lacks stops it before anything is loaded.
    yield _own(shadow, live.relation.owner)


def _own(table: TableRef, owner: str) -> sql.Composed:
    return sql.SQL("ALTER TABLE {} OWNER TO {}").format(identifier(table), sql.Identifier(owner))


def _column_settings(shadow: TableRef, column: ColumnFacts) -> Iterator[sql.Composed]:
    alter = sql.SQL("ALTER TABLE {} ALTER COLUMN {} SET ").format(identifier(shadow), sql.Identifier(column.name))
    if column.statistics is not None:
        yield sql.SQL("{}STATISTICS {}").format(alter, sql.Literal(column.statistics))
    if column.options:
        yield sql.SQL("{}({})").format(alter, sql.SQL(", ").join(_options(column.options)))


def _options(options: Sequence[str] | None, *namespace: str) -> Iterator[sql.Composed]:
    for option in options or ():
        name, _, value = option.partition("=")
        yield sql.SQL("{} = {}").format(sql.Identifier(*namespace, name), sql.Literal(value))


def create_index(table: TableRef, name: str, index: IndexFacts) -> Iterator[sql.Composed]:
    """The statements that build one index, and its key constraint, as the live table has it."""
    own = sql.Identifier(table.schema, name)
    unique = sql.SQL("UNIQUE " if index.unique else "")
    body = _text(index.body)
    yield sql.SQL("CREATE {}INDEX {} ON {} USING {} /* dpone:build_index */").format(
        unique, sql.Identifier(name), identifier(table), body
    )
    for number, target in index.statistics or ():
        yield sql.SQL("ALTER INDEX {} ALTER COLUMN {} SET STATISTICS {}").format(
            own, sql.Literal(number), sql.Literal(target)
        )
    if index.constraint_kind in ("p", "u"):
        kind = sql.SQL("PRIMARY KEY" if index.constraint_kind == "p" else "UNIQUE")
        yield sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} {} USING INDEX {}").format(
            identifier(table), sql.Identifier(name), kind, sql.Identifier(name)
        )
    if index.clustered:
        yield sql.SQL("ALTER TABLE {} CLUSTER ON {}").format(identifier(table), sql.Identifier(name))
    if index.replica_identity:
        yield sql.SQL("ALTER TABLE {} REPLICA IDENTITY USING INDEX {}").format(identifier(table), sql.Identifier(name))


def count_surplus(table: TableRef, key: IndexKey) -> sql.Composed:
    """Count the rows that are one too many of their key, as one index would compare them."""
    parts = [_text(text) for text in key.expressions]
    rows = [sql.SQL("({})").format(_text(key.predicate))] if key.predicate is not None else []
    if key.nulls_distinct:
        rows += [sql.SQL("({}) IS NOT NULL").format(part) for part in parts]
    return sql.SQL(
        "SELECT /* dpone:count_surplus */ coalesce(sum(surplus), 0)::bigint FROM ("
        "SELECT count(*) - 1 AS surplus FROM {} WHERE {} GROUP BY {} HAVING count(*) > 1) AS d"
    ).format(
        identifier(table),
        sql.SQL(" AND ").join(rows) if rows else sql.SQL("true"),
        sql.SQL(", ").join(sql.SQL("({})").format(part) for part in parts),
    )


def _text(text: str) -> sql.Composed:
    """SQL that the server itself has printed, with every name qualified."""
    return sql.SQL(text.replace("{", "{{").replace("}", "}}")).format()


def drop_index(table: TableRef, index: IndexFacts) -> sql.Composed:
    """Drop one index, with its constraint if it carries one."""
    if index.constraint_kind:
        return sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}").format(identifier(table), sql.Identifier(index.name))
    return sql.SQL("DROP INDEX {} /* dpone:drop_index */").format(sql.Identifier(table.schema, index.name))


def replica_identity(table: TableRef, code: str) -> sql.Composed | None:
    """Set the replica identity; None where an index is it, which `create_index` has set."""
    word = _REPLICA_IDENTITY.get(code)
    if word is None:
        return None
    return sql.SQL("ALTER TABLE {} REPLICA IDENTITY {}").format(identifier(table), sql.SQL(word))


def rename_table(table: TableRef, name: str) -> sql.Composed:
    """Give a table another name in its schema."""
    return sql.SQL("ALTER TABLE {} RENAME TO {} /* dpone:rename_table */").format(
        identifier(table), sql.Identifier(name)
    )


def drop_table(table: TableRef) -> sql.Composed:
    """Drop a table that nothing depends on."""
    return sql.SQL("DROP TABLE {} RESTRICT /* dpone:drop_table */").format(identifier(table))


def rename_index(schema: str, old: str, new: str) -> sql.Composed:
    """Give an index, and with it its constraint, another name."""
    return sql.SQL("ALTER INDEX {} RENAME TO {} /* dpone:rename_index */").format(
        sql.Identifier(schema, old), sql.Identifier(new)
    )


def comment_on_table(table: TableRef, text: str | None) -> sql.Composed:
    """Set or clear a table's comment."""
    return sql.SQL("COMMENT ON TABLE {} IS {}").format(identifier(table), sql.Literal(text))


def carry(old: Catalog, new: Catalog) -> Iterator[sql.Composed]:
    """Give the table that now bears the live name what the old one had: owner, grants and comments."""
    table = old.table
    if new.relation.owner != old.relation.owner:
        yield _own(table, old.relation.owner)
    yield from _grants(old, new)
    yield comment_on_table(table, old.relation.comment)
    for column in old.columns:
        yield from _column_comments(table, column)
    for index in old.indexes:
        yield from _index_comments(table, index)


def _grants(old: Catalog, new: Catalog) -> Iterator[sql.Composed]:
    if (new.relation.owner, new.relation.grants) == (old.relation.owner, old.relation.grants):
        return
    table = identifier(old.table)
    # The new table's grants come from default privileges; a changed owner has taken over the former one's.
    for role in {
        old.relation.owner,
        *(grant[0] for grant in new.relation.grants or () if grant[0] != new.relation.owner),
    }:
        yield sql.SQL("REVOKE ALL ON TABLE {} FROM {}").format(table, _role(role))
    for role, privilege, grantable in old.relation.grants or ():
        option = sql.SQL(" WITH GRANT OPTION" if grantable else "")
        # The privilege is a word of the server's own list.
        word = sql.SQL(privilege)
        yield sql.SQL("GRANT {} ON TABLE {} TO {}{}").format(word, table, _role(role), option)


def _role(name: str | None) -> sql.Composable:
    return sql.SQL("PUBLIC") if name is None else sql.Identifier(name)


def _column_comments(table: TableRef, column: ColumnFacts) -> Iterator[sql.Composed]:
    if column.comment is not None:
        name = sql.Identifier(table.schema, table.name, column.name)
        yield sql.SQL("COMMENT ON COLUMN {} IS {}").format(name, sql.Literal(column.comment))
    if column.not_null_comment is not None and column.not_null_name is not None:
        yield _comment_on_constraint(table, column.not_null_name, column.not_null_comment)


def _index_comments(table: TableRef, index: IndexFacts) -> Iterator[sql.Composed]:
    if index.comment is not None:
        name = sql.Identifier(table.schema, index.name)
        yield sql.SQL("COMMENT ON INDEX {} IS {}").format(name, sql.Literal(index.comment))
    if index.key_comment is not None:
        yield _comment_on_constraint(table, index.name, index.key_comment)


def _comment_on_constraint(table: TableRef, name: str, text: str) -> sql.Composed:
    return sql.SQL("COMMENT ON CONSTRAINT {} ON {} IS {}").format(
        sql.Identifier(name), identifier(table), sql.Literal(text)
    )

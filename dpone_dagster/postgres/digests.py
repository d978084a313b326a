"""Order-free digests of keys and rows, in one place, so that source and target compute the same.

A value's text is its server's own text form in a session of `Session` (UTC, ISO dates, floats in full), after the
contract's cast. Texts of several columns are joined so that no two different rows have one text: `~` is written `~0`,
the separator `|` is written `~1`, and NULL is a lone `~`. A single uuid or integer key is therefore its own text.

Statements made from these parts must be executed without parameters: a column may be called `%s`.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from dpone_dagster.campaign.contract import ColumnContract, type_word
from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.postgres.session import Session, translated

_FLOATS = frozenset({"float", "real", "double precision"})  # as the servers' catalogs print them
NOTHING = "0:0"  # the content digest of no row
_EVERY = sql.SQL("true")


def canonical_text(values: Sequence[sql.Composable]) -> sql.Composed:
    """SQL text of one row or key: unambiguous, the same on both sides.

    Args:
        values: Expressions, already cast as in the contract.
    """
    parts = [sql.SQL("coalesce(replace(replace(({})::text, '~', '~0'), '|', '~1'), '~')").format(v) for v in values]
    return sql.SQL(" || '|' || ").join(parts)


def portable(value: sql.Composable, target_type: str) -> sql.Composable:
    """A value as every server can write it: a float as the integer of its bits, since no two print it alike.

    Args:
        value: An expression, already cast as in the contract.
        target_type: As the target's catalog prints it.
    """
    if type_word(target_type) not in _FLOATS:
        return value
    return sql.SQL("('x' || encode(float8send(({})::float8), 'hex'))::bit(64)::bigint").format(value)


def digest(values: Sequence[sql.Composable]) -> sql.Composed:
    """SQL of the SHA-256 over the canonical text, as 64 hexadecimal digits."""
    return sql.SQL("encode(sha256(convert_to({}, 'UTF8')), 'hex')").format(canonical_text(values))


def keyed_digest(values: Sequence[sql.Composable], digest_key: str) -> sql.Composed:
    """SQL of a SHA-256 that cannot be guessed without the campaign's secret; names a row in an error message.

    Args:
        values: The key's expressions.
        digest_key: Hexadecimal secret.
    """
    return sql.SQL("encode(sha256(decode({}, 'hex') || convert_to({}, 'UTF8')), 'hex')").format(
        sql.Literal(digest_key), canonical_text(values)
    )


def bucket(hex_digest: sql.Composable, buckets: int) -> sql.Composed:
    """SQL of a digest's bucket: its first 16 bits modulo the number of buckets."""
    return sql.SQL("mod(('x' || left({}, 4))::bit(16)::integer, {})").format(hex_digest, sql.Literal(buckets))


def summand(hex_digest: sql.Composable) -> sql.Composed:
    """SQL of the 60 bits after the first 16, as a bigint that is never negative."""
    return sql.SQL("('x' || substr({}, 5, 15))::bit(60)::bigint").format(hex_digest)


def in_buckets(keys: Sequence[sql.Composable], buckets: int, wanted: Sequence[int]) -> sql.Composed:
    """SQL condition: the key's bucket is one of the wanted ones."""
    chosen = sql.SQL(", ").join(sql.Literal(number) for number in wanted)
    return sql.SQL("{} = ANY (ARRAY[{}]::integer[])").format(bucket(digest(keys), buckets), chosen)


def key_buckets_query(
    relation: sql.Composable, keys: Sequence[sql.Composable], buckets: int, *, only: sql.Composable = _EVERY
) -> sql.Composed:
    """A statement that returns (bucket, keys, total) of every bucket that has a key; `total` is decimal text.

    Args:
        relation: The table, quoted.
        keys: The key's expressions.
        buckets: Number of buckets, up to 65,536.
        only: Condition on the rows that count.
    """
    hashed = sql.SQL("hashed.digest")
    # OFFSET 0 keeps the planner from hashing each key once a use.
    return sql.SQL(
        "SELECT /* dpone:key_buckets */ {}, count(*), sum({})::text "
        "FROM (SELECT {} AS digest FROM {} AS t WHERE {} OFFSET 0) AS hashed GROUP BY 1 ORDER BY 1"
    ).format(bucket(hashed, buckets), summand(hashed), digest(keys), relation, only)


def row_buckets_query(
    relation: sql.Composable,
    keys: Sequence[sql.Composable],
    values: Sequence[sql.Composable],
    buckets: int,
    *,
    only: sql.Composable = _EVERY,
) -> sql.Composed:
    """As `key_buckets_query`, but `total` is over whole rows.

    Args:
        relation: The table, quoted.
        keys: The key's expressions, which tell the bucket.
        values: All columns of the contract, in its order, cast as in it.
        buckets: Number of buckets, up to 65,536.
        only: Condition on the rows that count.
    """
    place, content = sql.SQL("hashed.place"), sql.SQL("hashed.content")
    return sql.SQL(
        "SELECT /* dpone:row_buckets */ {}, count(*), sum({})::text "
        "FROM (SELECT {} AS place, {} AS content FROM {} AS t WHERE {} OFFSET 0) AS hashed GROUP BY 1 ORDER BY 1"
    ).format(bucket(place, buckets), summand(content), digest(keys), digest(values), relation, only)


def content_digest_query(
    relation: sql.Composable, values: Sequence[sql.Composable], *, only: sql.Composable = _EVERY
) -> sql.Composed:
    """A statement that returns `<rows>:<sum>` over rows of a relation.

    Args:
        relation: The table, quoted.
        values: All columns of the contract, in its order, cast as in it.
        only: Condition on the rows that count.
    """
    return sql.SQL("SELECT /* dpone:content_digest */ count(*) || ':' || coalesce(sum({}), 0) FROM {} WHERE {}").format(
        summand(digest(values)), relation, only
    )


def content_digest(session: Session, table: TableRef, contract: ColumnContract) -> str:
    """`<rows>:<sum>` over a table that has the contract's target columns.

    Args:
        session: Where the table is.
        table: The live table, a shadow or a stage.
        contract: Its columns.
    """
    values = [portable(sql.Identifier(column.target), column.target_type) for column in contract.columns]
    with translated():
        query = content_digest_query(sql.Identifier(table.schema, table.name), values)
        row = session.connection.execute(query).fetchone()
    if row is None:
        raise DponeError(f"the server returned no digest of {table}")
    return str(row[0])

"""What a swap would lose: a sentence and a way out for each kind of thing that cannot be reproduced."""

from __future__ import annotations

from collections.abc import Mapping

from dpone_dagster.campaign.errors import Finding

_AFTER = "drop it and create it again after the publication, or publish this table by a reviewed migration"
_DROP = "drop it before the campaign; a reviewed migration can bring it back"
_FOLLOWS = "follows the old table by its object id and would stay with the backup"
_NOT_MADE = "which would stay with the backup: the DDL here does not make it again"

# By the kind that catalog.sql reports; kinds of dependent objects are PostgreSQL's own words.
_LOSSES: Mapping[str, tuple[str, str]] = {
    "kind": ("is not a table", "name an ordinary table as the target"),
    "partitioned": ("is partitioned", "load its partitions as tables of their own, or use an ordinary table"),
    "partition": ("is a partition of another table", "detach it before the campaign and attach it afterwards"),
    "parent": ("is inherited from; the new table would not be", "end the inheritance (NO INHERIT)"),
    "table": ("is a child of the table by inheritance", "end the inheritance (NO INHERIT)"),
    "unlogged": ("is unlogged: a crash of the server would empty it", "ALTER TABLE … SET LOGGED"),
    "temporary": ("is temporary", "name an ordinary table as the target"),
    "access method": (
        "is not the heap access method, and nothing else was proven",
        "ALTER TABLE … SET ACCESS METHOD heap",
    ),
    "typed": ("is the type that the table is made of", "ALTER TABLE … NOT OF"),
    "row security": (
        "has row security, and a policy follows the old table",
        "disable row security and drop the policies",
    ),
    "policy": (f"is a policy, which {_FOLLOWS}", _DROP),
    "row type": ("is the table's row type with grants or a comment of its own", "revoke the grants, drop the comment"),
    "grantor": (
        "granted rights on the table without owning it, which nobody else can repeat",
        "let the owner grant them",
    ),
    "security label": ("has a security label", "remove the label (SECURITY LABEL … IS NULL)"),
    "extension": ("is an extension that the table or an index of it belongs to", "ALTER EXTENSION … DROP TABLE"),
    # A subscriber gets the shadow's rows under the shadow's name, and nothing at all of the swap.
    "publication": (
        "is a publication that holds the table; its subscribers would get the shadow's rows under a foreign name "
        "and never hear of the swap",
        "take the table out of it: name the published tables one by one instead of ALL TABLES or a whole schema",
    ),
    "subscription": ("is written by a subscription, which would go on writing to the backup", "take it out of it"),
    "identity column": ("is an identity column, whose counter cannot be carried", "ALTER COLUMN … DROP IDENTITY"),
    "generated column": ("is a generated column, which cannot be loaded", "ALTER COLUMN … DROP EXPRESSION"),
    "column grant": ("has grants on the column alone", "grant on the table or its schema instead"),
    "sequence default": ("takes its default from a sequence", "ALTER COLUMN … DROP DEFAULT"),
    "sequence": ("is a sequence owned by a column of the table; it would be dropped with the backup", "OWNED BY NONE"),
    "deferrable key": ("is a deferrable key", "make it NOT DEFERRABLE"),
    "period key": ("is a key WITHOUT OVERLAPS", _DROP),
    "not-null constraint": (
        "is a NOT NULL constraint that is not validated or has NO INHERIT",
        "ALTER TABLE … VALIDATE CONSTRAINT",
    ),
    "invalid index": ("is an index that was never finished", "REINDEX it, or drop it"),
    "index definition": ("is an index whose definition could not be read back", _DROP),
    "foreign key": (f"is a foreign key, which {_FOLLOWS}", _DROP),
    "inbound foreign key": ("is a foreign key that points to the table and would point to the backup", _DROP),
    "check constraint": (f"is a CHECK constraint, {_NOT_MADE}", _DROP),
    "exclusion constraint": (f"is an EXCLUDE constraint, {_NOT_MADE}", _DROP),
    "trigger": (f"is a trigger (a disabled one counts too), which {_FOLLOWS}", _DROP),
    "rule": (f"is a rule, which {_FOLLOWS}", _DROP),
    "view": ("is a view that would go on reading the old table", _AFTER),
    "materialized view": ("is a materialized view that would go on reading the old table", _AFTER),
    "function": ("is a function that would go on using the old table", _AFTER),
    "statistics object": (f"is an extended statistics object, which {_FOLLOWS}", _DROP),
    "owner": ("owns the table, and this login has not the owner's rights", "grant the owner's role to the login"),
    "owner schema right": (
        "is a schema in which the table's owner may not create a table, so it cannot be given the new one",
        "GRANT CREATE ON SCHEMA to the owner",
    ),
    "schema right": ("is a schema in which this login may not create a table", "GRANT CREATE ON SCHEMA"),
}

# What also keeps rows from being written as they are, deleted alone, or kept at all.
UNWRITABLE = frozenset(
    {"kind", "unlogged", "temporary", "row security", "policy", "rule", "trigger", "inbound foreign key",
     "generated column", "subscription"}
)  # fmt: skip


def finding_of(kind: str, name: str, table: str) -> Finding:
    """The finding for one object that a swap of the table would lose.

    Args:
        kind: As `catalog.sql` reports it.
        name: The object.
        table: The table that is to be swapped.
    """
    problem, advice = _LOSSES.get(kind, (f"is a {kind} that depends on the old table by its object id", _AFTER))
    return Finding(name if name == table or "." in name else f"{table}: {name}", problem, advice)

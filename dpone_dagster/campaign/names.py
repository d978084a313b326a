"""Names of the objects and locks that a campaign derives, all in one place."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

STATE_SCHEMA_VERSION_TABLE = "__dpone__schema_version"


@dataclass(frozen=True, order=True)
class TableRef:
    """A table by schema and name, unquoted; its text quotes what would make it another table's text too."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{_unmistakable(self.schema)}.{_unmistakable(self.name)}"

    def sibling(self, name: str) -> TableRef:
        """Another table of the same schema."""
        return TableRef(self.schema, name)


def _unmistakable(name: str) -> str:
    """`"a.b".c` and `a."b.c"` are two tables; ordinary names stay as they are."""
    return '"' + name.replace('"', '""') + '"' if "." in name or '"' in name else name


def digest_of(*parts: str, digits: int = 10) -> str:
    """A short hexadecimal digest over parts that cannot run into one another."""
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:digits]


def derived_name(base: str, role: str, digest: str, *, limit_bytes: int = 63) -> str:
    """`<base>__dpone_<role>_<digest>`, its base shortened so that the whole fits the server's limit.

    Args:
        base: The name that it is derived from.
        role: `shadow`, `backup`, `index`, …
        digest: What makes the name unique even where the base is cut.
        limit_bytes: 63 UTF-8 bytes on PostgreSQL (NAMEDATALEN - 1). SQL Server's 128 characters are never less.
    """
    tail = f"__dpone_{role}_{digest}"
    room = limit_bytes - len(tail.encode())
    return base.encode()[:room].decode(errors="ignore") + tail


def shadow_name(target: TableRef, run_key: str, artifact_scope: str) -> str:
    """The shadow beside its target: one a target (`stable`) or one a campaign (`campaign`)."""
    parts = (str(target), run_key) if artifact_scope == "campaign" else (str(target),)
    return derived_name(target.name, "shadow", digest_of(*parts))


def backup_name(target: TableRef, run_key: str) -> str:
    """The table that was live before this campaign's publication; unique a campaign, so that none is overwritten."""
    return derived_name(target.name, "backup", digest_of(str(target), run_key))


def rolled_back_name(target: TableRef, run_key: str) -> str:
    """What a campaign's table is called after its rollback; a campaign is rolled back once, so none is overwritten."""
    return derived_name(target.name, "rolled_back", digest_of(str(target), run_key))


def campaign_lock(state_schema: str, run_key: str) -> str:
    """Held shared by lanes, exclusive by prepare, seal and publication."""
    return f"dpone/campaign/{state_schema}/{run_key}"


def chunk_lock(state_schema: str, run_key: str, chunk_index: int) -> str:
    """Held exclusive by the one session that may write the chunk."""
    return f"dpone/chunk/{state_schema}/{run_key}/{chunk_index}"


def target_lock(target: TableRef) -> str:
    """Transaction lock on the physical target, shared by publications, rollbacks and increments."""
    return f"dpone/target/{target}"


def publication_lock(target: TableRef) -> str:
    """Transaction lock on publications of a target; always taken after the target lock."""
    return f"dpone/publication/{target}"


def state_lock(state_schema: str) -> str:
    """Transaction lock on creating and upgrading the state tables."""
    return f"dpone/state/{state_schema}"

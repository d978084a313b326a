"""What `make certify` was asked for, by variables of the environment.

SOURCE=postgres_oltp  connection_ref of a PostgreSQL; a private one if it is not given
TARGET=mssql_dwh      connection_ref of either kind; not given, or `postgres`: a private PostgreSQL; `mssql`: a database
                      of its own on the SQL Server of DPONE_TEST_MSSQL_URL, else on this machine's stand-in
ROWS=200000           spread over all chunks
CHUNKS=512  LANES=4
LARGE=4               so many chunks get about a million rows more: one a lane, unless more lanes are asked for
KEEP=1                leave everything as it is when it is over
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from certify.measurements import CHUNKS, LANES
from dpone_dagster.campaign.errors import Finding, Refused

_BOUNDS = {"ROWS": (1, 2_000_000_000), "CHUNKS": (8, 65_536), "LANES": (1, 64), "LARGE": (0, 65_536)}


class CertifyRefused(Refused):
    """What was asked for cannot be certified, or somebody else's things are in the way."""

    code = "CERTIFY_REFUSED"
    next_step = "Correct what is named, then run `make certify` again."


@dataclass(frozen=True)
class Asked:
    """What was asked for.

    Attributes:
        source: connection_ref of the source; None for a private PostgreSQL.
        target: connection_ref of the target, or `postgres` or `mssql` for a server of this machine.
        rows: Spread over all chunks.
        chunks: Of the plan.
        lanes: At once.
        large_chunks: Chunks that get about a million rows more.
        keep: Leave everything as it is when it is over.
    """

    source: str | None
    target: str
    rows: int
    chunks: int
    lanes: int
    large_chunks: int
    keep: bool

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Asked:
        """Read it.

        Raises:
            CertifyRefused: Names every number that cannot be used.
        """
        lanes = _number(environ, "LANES", LANES)
        numbers = {
            "ROWS": _number(environ, "ROWS", 200_000),
            "CHUNKS": _number(environ, "CHUNKS", CHUNKS),
            "LANES": lanes,
            "LARGE": _number(environ, "LARGE", lanes if lanes > 0 else LANES),
        }
        findings = [
            Finding(name, f"is no number from {low:,} to {high:,}")
            for name, (low, high) in _BOUNDS.items()
            if not low <= numbers[name] <= high
        ]
        if not findings and numbers["LARGE"] > numbers["CHUNKS"]:
            findings.append(Finding("LARGE", "is more than there are chunks"))
        if findings:
            raise CertifyRefused("the parameters cannot be used", findings=findings)
        return cls(
            source=environ.get("SOURCE") or None,
            target=environ.get("TARGET") or "postgres",
            rows=numbers["ROWS"],
            chunks=numbers["CHUNKS"],
            lanes=lanes,
            large_chunks=numbers["LARGE"],
            keep=environ.get("KEEP", "") not in ("", "0"),
        )


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    """The number, or -1 where it is none."""
    text = environ.get(name, "").strip()
    if not text:
        return default
    return int(text) if text.isascii() and text.isdigit() else -1

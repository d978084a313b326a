"""Canonical JSON, hashes, and the identity of a campaign."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

Json = Mapping[str, object]


def canonical_json(value: object) -> str:
    """One text for one value: sorted keys, no spaces, UTF-8 as it is."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def sha256_of(value: object) -> str:
    """SHA-256, as 64 hexadecimal digits, over the canonical JSON of a value."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def run_key_of(dataset: str, backfill_id: str | None, chunk_spec: Json) -> str:
    """The campaign's identity, found without any I/O.

    Args:
        dataset: The manifest's name.
        backfill_id: The pinned campaign, or None to derive it from the chunk specification.
        chunk_spec: The resolved chunk specification (`ChunkSpec.as_dict()`).
    """
    if backfill_id is not None:
        return sha256_of({"dataset": dataset, "backfill_id": backfill_id})
    return sha256_of({"dataset": dataset, "chunk": chunk_spec})

"""Holds what a command printed to its published JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from docs.answers import ANSWERS, schema_name

SCHEMAS = Path(__file__).parents[1] / "docs" / "schemas"


def prove_answer(words: Sequence[str], answer: object) -> None:
    """Fail unless the answer is one that `docs/schemas` allows the command."""
    import jsonschema

    command = next(name for count in (2, 1) if (name := " ".join(words[:count])) in ANSWERS)
    schema: dict[str, Any] = json.loads((SCHEMAS / schema_name(command)).read_text())
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(answer))
    assert error is None, f"dpone {command}: {error.json_path}: {error.message}"

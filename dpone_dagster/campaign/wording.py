"""Words for findings: a value as it may be shown, and the key that was probably meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_SHOWN_CHARACTERS = 60


def nearest(word: str, allowed: Sequence[str]) -> str | None:
    """The allowed word that was probably meant."""
    import difflib  # only a manifest that is wrong pays for it

    return next(iter(difflib.get_close_matches(word, allowed, n=1, cutoff=0.6)), None)


def shown(value: object) -> str:
    """A value for a message: short, and hidden if it may hold a secret."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "no value"}[value]
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    text = str(value)
    if "://" in text:
        return "a URL"
    short = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
    return repr(short) if isinstance(value, str) else short

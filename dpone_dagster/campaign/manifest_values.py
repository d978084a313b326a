"""Single values of the manifest: what is read, what is folded, and what is refused on sight."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from zoneinfo import ZoneInfo

from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from dpone_dagster.campaign.cron import cron_problem
from dpone_dagster.campaign.errors import ManifestInvalid

FINDINGS_ERROR = "findings"


def as_text(value: object) -> object:
    """A bound or step as text: YAML gives numbers and dates where it sees them."""
    if isinstance(value, date):  # a datetime is one too
        return value.isoformat()
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value


def a_boolean(value: object) -> object:
    """Keep 1 and 0 out, which equal true and false."""
    if not isinstance(value, bool):
        raise PydanticCustomError("bool_type", "Input should be true or false")
    return value


def null_is_a_word(value: object) -> object:
    """`on_bad_value: null` means the word: YAML reads it as no value at all."""
    return "null" if value is None else value


def a_cron(value: str) -> str:
    """A cron line that a scheduler can read."""
    if problem := cron_problem(value):
        raise PydanticCustomError("cron", "Input should be a cron of five fields; {problem}", {"problem": problem})
    return value


def a_timezone(value: str) -> str:
    """A zone that this machine knows."""
    try:
        ZoneInfo(value)
    except (ValueError, OSError, KeyError):
        raise PydanticCustomError("timezone", "Input should be an IANA time zone such as Europe/Paris") from None
    return value


def a_wall_time(value: str) -> str:
    """A date or a time by a clock on the wall; the zone stands beside it."""
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is not None:
        raise PydanticCustomError("wall_time", "Input should be a date or a time without a zone, such as 2024-01-01")
    return value


def folded_connection_id(data: object) -> object:
    """`connection_id` is an older word for `connection_ref`; both at once are one too many."""
    if not isinstance(data, dict) or "connection_id" not in data or "connection_ref" in data:
        return data
    return {"connection_ref" if key == "connection_id" else key: value for key, value in data.items()}


def with_connection_id(schema: JsonDict) -> None:
    """Teach the JSON Schema the older word."""
    properties, required = schema["properties"], schema["required"]
    if isinstance(properties, dict) and isinstance(required, list):
        properties["connection_id"] = properties["connection_ref"]
        required.remove("connection_ref")
        schema["oneOf"] = [{"required": ["connection_ref"]}, {"required": ["connection_id"]}]


def planned(make: Callable[[], object]) -> None:
    """Carry findings that have their own paths through the validator."""
    try:
        make()
    except ManifestInvalid as error:
        raise PydanticCustomError(FINDINGS_ERROR, "cannot be planned", {"findings": error.findings}) from None

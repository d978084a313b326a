"""Write the reference pages that are made from the code: `python -m docs.generate`."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

from certify.report import report_schema
from docs.answers import ANSWERS, schema_name, schema_of
from docs.commands import commands_page
from dpone_dagster import faultpoints
from dpone_dagster.campaign import errors
from dpone_dagster.campaign.increment_manifest import IncrementManifest
from dpone_dagster.campaign.manifest import manifest_schema
from dpone_dagster.campaign.statebackends import CAPABILITIES, StateCapabilities

FOLDER = Path(__file__).parent
Node = Mapping[str, Any]
_EXIT_CODES = (
    (0, "done"),
    (1, "ran and did not succeed"),
    (2, "refused before anything was touched"),
    (3, "somebody else holds the campaign"),
    (130, "interrupted"),
)

_CODES_ELSEWHERE = {
    "DPONE_BACKFILL_CAMPAIGN_LEASE_LOST": (
        f"`{errors.LeaseLost.code}` in the worker whose session was ended. While a session of a lost worker lives on "
        f"at the server, the campaign is `{errors.CampaignActive.code}`, which names it; "
        "`dpone backfill release MANIFEST` ends it, then `resume`."
    ),
}


def pages() -> Mapping[str, str]:
    """Every generated page by its file name."""
    texts = {
        "errors.md": _errors(),
        "manifest.md": _manifest(),
        "faults.md": _faults(),
        "cli.md": commands_page(),
        "backends.md": _backends(),
    }
    schemas = {schema_name(words): schema_of(words) for words in ANSWERS}
    schemas["certification-report.schema.json"] = report_schema()
    return {**texts, **{f"schemas/{name}": json.dumps(schema, indent=2) + "\n" for name, schema in schemas.items()}}


def _errors() -> str:
    lines = ["# Errors", "", "Every error has a stable code, says where, and ends with the next step.", ""]
    lines += ["| exit code | meaning |", "|---|---|", *(f"| {code} | {meaning} |" for code, meaning in _EXIT_CODES)]
    lines += ["", "| code | exit | meaning | next step |", "|---|---|---|---|"]
    for kind in sorted(_error_classes(), key=lambda k: k.code):
        meaning = " ".join(inspect.getdoc(kind).split())  # type: ignore[union-attr]
        lines.append(f"| `{kind.code}` | {kind.exit_code} | {_cell(meaning)} | {_cell(kind.next_step)} |")
    lines += ["", "## Codes known from the Airflow host", "", "| there | here |", "|---|---|"]
    lines += [f"| `{code}` | {_cell(meaning)} |" for code, meaning in _CODES_ELSEWHERE.items()]
    return "\n".join(lines) + "\n"


def _error_classes() -> Iterator[type[errors.DponeError]]:
    for kind in vars(errors).values():
        if inspect.isclass(kind) and issubclass(kind, errors.DponeError) and "code" in vars(kind):
            yield kind


def _manifest() -> str:
    lines = [
        "# The manifest",
        "",
        "Unknown keys are refused, and `dpone manifest check` says all that is wrong at once. `dpone manifest schema`",
        "prints keys and values as JSON Schema for editors; what one key asks of another, such as a step of its kind,",
        "only `check` knows. `examples/orders.yaml` is one to start from.",
        "",
        *_table(manifest_schema()),
        "",
        "## Increments only",
        "",
        "With `sink.strategy.mode: incremental_merge` a manifest has the increments of a handoff and no campaign, as",
        "`examples/orders_increment.yaml` does. The handoff is that of a campaign with the same source and target.",
        "",
        *_table(IncrementManifest.model_json_schema(by_alias=True)),
    ]
    return "\n".join(lines) + "\n"


def _table(schema: Node) -> Iterator[str]:
    yield "| key | value | default | what it is |"
    yield "|---|---|---|---|"
    for path, node, required in _keys(schema, schema, ""):
        default = "required" if required else _default(node)
        yield f"| `{path}` | {_cell(_value(schema, node))} | {default} | {_cell(node.get('description', ''))} |"


def _backends() -> str:
    """What each state backend can do, as a page."""
    lines = [
        "# State backends",
        "",
        "What each can do; `backfill.state_capabilities` in the JSON of every command says the same. What they are is",
        "in [state.md](state.md).",
        "",
        f"| {' | '.join(f'`{field.name}`' for field in fields(StateCapabilities))} |",
        "|" + "---|" * len(fields(StateCapabilities)),
    ]
    lines += [f"| {' | '.join(map(_said, astuple(each)))} |" for each in CAPABILITIES.values()]
    return "\n".join(lines) + "\n"


def _said(value: object) -> str:
    return f"`{value}`" if isinstance(value, str) else "yes" if value else "no"


def _faults() -> str:
    """The fault points as a page."""
    lines = [
        "# Fault points",
        "",
        "Tests end, stop, hold or cut off a real process at these places. A process that finds `DPONE_FAULT` without",
        "`DPONE_ALLOW_FAULTS=1`, or with a word that is not on this page, exits 2 and does nothing.",
        "",
        "```sh",
        "DPONE_ALLOW_FAULTS=1",
        "DPONE_FAULT='after_chunk_commit:3=kill; between_renames=stop'  # point[:chunk][=action], several by `;`",
        "DPONE_FAULT_MARKS=/tmp/marks  # an existing folder: a fault fires once over all processes, not once in each",
        "```",
        "",
        "Without an index a chunk's point means any chunk; without an action the process is killed. A fault that fires",
        "leaves a file of its name (`after_chunk_commit:3`) in the folder of marks, with the process id in it.",
        "",
    ]
    lines += ["| point of a chunk | what is true there |", "|---|---|"]
    lines += [f"| `{name}` | {_cell(meaning)} |" for name, meaning in faultpoints.CHUNK_POINTS.items()]
    lines += ["", "| point of a campaign | what is true there |", "|---|---|"]
    lines += [f"| `{name}` | {_cell(meaning)} |" for name, meaning in faultpoints.CAMPAIGN_POINTS.items()]
    lines += ["", "| action | what it does |", "|---|---|"]
    lines += [f"| `{name}` | {_cell(meaning)} |" for name, meaning in faultpoints.ACTIONS.items()]
    return "\n".join(lines) + "\n"


def _keys(
    root: Mapping[str, Any], block: Mapping[str, Any], path: str
) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    required = block.get("required", ())
    for name, node in block.get("properties", {}).items():
        inner = _resolved(root, node)
        here = f"{path}{name}"
        if "properties" in inner:
            yield from _keys(root, inner, f"{here}.")
        elif named := [n for n in inner.get("patternProperties", {}).values() if "$ref" in n]:
            yield from _keys(root, _resolved(root, named[0]), f"{here}.<name>.")
        else:
            yield here, inner, name in required


def _resolved(root: Node, node: Node) -> dict[str, Any]:
    """The node with its reference, or the one choice that is not null, put in its place."""
    if "$ref" in node:
        target = root["$defs"][node["$ref"].rpartition("/")[2]]
        return {**_resolved(root, target), **{k: v for k, v in node.items() if k != "$ref"}}
    choices = [c for c in node.get("anyOf", ()) if c.get("type") != "null"]
    if len(choices) == 1:
        return {**_resolved(root, choices[0]), **{k: v for k, v in node.items() if k != "anyOf"}}
    return dict(node)


def _value(root: Node, node: Node) -> str:
    if "const" in node:
        return f"`{_word(node['const'])}`"
    if "enum" in node:
        return ", ".join(f"`{_word(v)}`" for v in node["enum"] if v is not None)
    kind = node.get("type", "")
    if kind == "array":
        return f"list of {_value(root, _resolved(root, node['items']))}"
    kind = " or ".join(kind) if isinstance(kind, list) else kind
    low, high = node.get("minimum"), node.get("maximum")
    return f"{kind} {low if low is not None else ''}..{high if high is not None else ''}" if low is not None else kind


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _default(node: Node) -> str:
    default = node.get("default")
    return "" if default is None else f"`{_word(default)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    """Write the pages."""
    for name, text in pages().items():
        page = FOLDER / name
        page.parent.mkdir(exist_ok=True)
        page.write_text(text)


if __name__ == "__main__":
    main()

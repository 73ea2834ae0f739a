"""Generates pages and sections of `docs/`, and the installed settings files, from code.

Run by `./dev docs`, checked by tests.
"""

import json
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from agent.exposition import catalogue
from agent.exposition.metrics import PASS_DURATION
from agent.features import load_features, settings_class
from collector.common.extensions import extend
from collector.common.labels import LABELS
from collector.config import CollectorConfig
from collector.decide.policies.table import POLICIES
from collector.runtime.parts import INGEST_DURATION
from collector.serve.api.metrics import COLLECTOR_METRICS
from collector.serve.api.table import ROUTES
from collector.serve.web.openapi import Json, document
from wattpack.config.loader import Key, keys
from wattpack.config.options import CREDENTIALS, ETC
from wire.metrics import MetricSpec

_GENERATED = "<!-- Generated from code by ./dev docs: change the code instead. -->"
_ROLES: dict[str, type[msgspec.Struct]] = {"agent": settings_class(), "collector": CollectorConfig}
_COMMENT_WIDTH = 110


def _configuration() -> Iterator[str]:
    """The page with every key of every role."""
    yield "# Configuration"
    yield _GENERATED
    yield ""
    yield "Each role has one TOML file. Every key has a default, so the file may be empty or missing."
    yield "Later sources override earlier ones: default, file, environment variable, `--set KEY=VALUE`."
    yield "An unknown key or an invalid value is an error that names its line and the nearest valid key."
    yield "`wattpack admin check-config ROLE FILE` checks a file without starting anything."
    yield "Words such as *beacon*, *envelope* or *class* are explained in the [glossary](glossary.md)."
    for role, config in _ROLES.items():
        yield ""
        yield f"## The {role}: `{ETC / role}.toml`"
        table: tuple[str, ...] | None = None
        for key in keys(config):
            if key.path[:-1] != table:
                table = key.path[:-1]
                yield from _table_heading(config, table)
            yield f"| `{key.path[-1]}` | `{_toml(key.default)}` | {_bounds(key)} | {key.description} |"
    yield ""
    yield "## Policies"
    yield ""
    yield "For `placement.policy`, `control.policy` and `control.timer_policy`. `wattpack replay` has more,"
    yield "to compare with ([replay.md](replay.md#policies))."
    yield ""
    yield "| policy | what it does | for whom |"
    yield "|---|---|---|"
    for policy in POLICIES.values():
        yield f"| `{policy.name}` | {policy.summary} | {policy.for_whom} |"
    yield ""
    yield "## Environment variables"
    yield ""
    yield "The name is `WATTPACK_`, the role, the table and the key, in capitals: the agent's"
    yield "`sampling.interval_seconds` is `WATTPACK_AGENT_SAMPLING_INTERVAL_SECONDS`, its `node` is"
    yield "`WATTPACK_AGENT_NODE`. An unknown variable for the role that starts is an error."
    yield ""


def _table_heading(config: type[msgspec.Struct], table: tuple[str, ...]) -> Iterator[str]:
    yield ""
    if table:
        section: Any = config
        for name in table:
            section = get_type_hints(section)[name]
        yield f"### `[{'.'.join(table)}]`"
        yield ""
        yield section.__doc__.splitlines()[0]
        yield ""
    yield "| key | default | allowed | description |"
    yield "|---|---|---|---|"


def _toml(value: object) -> str:
    return json.dumps(msgspec.to_builtins(value))


def _settings_file(role: str) -> Iterator[str]:
    """The installed file: every key as a comment with its default."""
    yield f"# Settings of the Wattpack {role}. Every key is shown with its default; remove # to change it."
    yield f"# Check the file with: wattpack admin check-config {role} {ETC / role}.toml"
    yield f"# Apply it with: systemctl reload wattpack-{role}"
    yield "# Generated from code by ./dev docs."
    table: tuple[str, ...] = ()
    for key in keys(_ROLES[role]):
        if isinstance(key.default, dict) and len(key.path) == 1:
            yield ""
            yield from _comment(key.description)
            yield f"[{key.path[0]}]"
            for name, value in msgspec.to_builtins(key.default).items():
                fields = ", ".join(f"{field} = {_toml(each)}" for field, each in value.items())
                yield f"#{name} = {{ {fields} }}"
            continue
        if key.path[:-1] != table:
            table = key.path[:-1]
            yield ""
            yield f"[{'.'.join(table)}]"
        yield from _comment(key.description)
        if key.path in CREDENTIALS:
            yield f"# Default under systemd: the credential {CREDENTIALS[key.path]}, if the unit loads it."
        yield f"#{key.path[-1]} = {_toml(key.default)}"
    yield ""


def _comment(text: str) -> list[str]:
    return textwrap.wrap(
        text, _COMMENT_WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
    )


def _bounds(key: Key) -> str:
    if get_origin(key.type) is Literal:
        return ", ".join(get_args(key.type))
    meta = key.meta
    parts = [
        f"{sign} {bound:g}" if isinstance(bound, float) else f"{sign} {bound}"
        for sign, bound in ((">", meta.gt), (">=", meta.ge), ("<", meta.lt), ("<=", meta.le))
        if bound is not None
    ]
    kinds = {bool: "true, false", str: "text", int: "whole number", float: "number"}
    return f"{kinds.get(key.type, 'tables')} {', '.join(parts)}".strip()


def _metrics() -> Iterator[str]:
    """The page with every metric of agent and collector."""
    yield "# Metrics"
    yield _GENERATED
    yield ""
    yield "Metrics use base units, counters end in `_total`, and ratios go from 0 to 1. An unknown value has"
    yield "no series, never a zero; a stopped container has no series either. Agent and collector also expose"
    yield "`process_*` metrics about their own resource usage. The [glossary](glossary.md) explains words"
    yield "such as *beacon* and *gap*; [prometheus.md](prometheus.md) has recipes, rules and dashboards."
    groups: dict[str, Sequence[MetricSpec[Any]]] = {
        "Node, exposed by the agent": (
            *catalogue.NODE_METRICS,
            *catalogue.DISK_METRICS,
            *catalogue.LINK_METRICS,
            *catalogue.METER_METRICS,
            *catalogue.NODE_PRESSURE_METRICS,
            *(spec for feature in load_features() for spec in feature.metrics),
        ),
        "Containers, exposed by the agent": (
            *catalogue.CONTAINER_METRICS,
            *catalogue.CONTAINER_PRESSURE_METRICS,
        ),
        "Agent": (*catalogue.AGENT_METRICS, *catalogue.ALERT_METRICS, *catalogue.GAP_METRICS),
        "Collector": COLLECTOR_METRICS,
    }
    histograms = {"Agent": PASS_DURATION, "Collector": INGEST_DURATION}
    for title, specs in groups.items():
        yield ""
        yield f"## {title}"
        yield ""
        yield "| metric | type | labels | description |"
        yield "|---|---|---|---|"
        for spec in specs:
            labels = ", ".join(f"`{label}`" for label in spec.labels)
            yield f"| `{spec.name}` | {spec.kind} | {labels} | {spec.help} |"
        if title in histograms:
            name, meaning = histograms[title]
            yield f"| `{name}` | histogram | | {meaning} |"
    yield ""


_API_HEAD = """# Collector API

Requests and responses are JSON; `GET /openapi.json` is the same reference for programs. An error is a problem
document (RFC 9457) of type `application/problem+json`. Times are Unix seconds. An unknown quantity is omitted
or null, never zero. If the collector has tokens, send one as `Authorization: Bearer TOKEN`; an admin token is
valid for every route.
"""


def _api() -> Iterator[str]:
    """The page with every route and type of the collector's API."""
    described = document(ROUTES)
    yield _API_HEAD
    yield from _route_parts(described)
    yield "## Types\n"
    yield from _type_parts(described)


def _route_parts(described: Json) -> Iterator[str]:
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            yield f"## `{method.upper()} {path}`\n"
            yield f"{operation['summary']}{_needs(operation['security'])}\n"
            if body := operation.get("requestBody"):
                yield f"Request body: {_kind(body['content']['application/json']['schema'])}.\n"
            if parameters := operation["parameters"]:
                yield "| parameter | type | default | description |\n|---|---|---|---|"
                for each in parameters:
                    schema = each["schema"]
                    default = schema.get("default", "")
                    yield f"| `{each['name']}` | {_kind(schema)} | {default} | {each['description']} |"
                yield ""
            yield "| status | type | description |\n|---|---|---|"
            for status, response in operation["responses"].items():
                kinds = (
                    _kind(content["schema"]) if content_type.endswith("json") else f"`{content_type}`"
                    for content_type, content in response["content"].items()
                )
                yield f"| {status} | {' or '.join(kinds)} | {response['description']} |"
            yield ""


def _needs(security: list[dict[str, list[str]]]) -> str:
    scopes = [scope for way in security for scope in way.get("token", ())]
    return f" Requires a token of kind `{scopes[0]}`." if scopes else ""


def _type_parts(described: Json) -> Iterator[str]:
    for name, schema in sorted(described["components"]["schemas"].items()):
        yield f"### {name}\n"
        if text := schema.get("description"):
            yield f"{text}\n"
        if values := schema.get("enum"):
            yield f"One of {', '.join(f'`{value}`' for value in values)}.\n"
        if properties := schema.get("properties"):
            required = schema.get("required", [])
            yield "| field | type | required | description |\n|---|---|---|---|"
            for field, kind in properties.items():
                needed = "yes" if field in required else "no"
                yield f"| `{field}` | {_kind(kind)} | {needed} | {_cell(kind.get('description', ''))} |"
            yield ""


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _kind(schema: Json) -> str:
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if choices := schema.get("anyOf"):
        return " or ".join(_kind(choice) for choice in choices)
    if values := schema.get("enum"):
        return " or ".join(f"`{value}`" for value in values)
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if values := schema.get("additionalProperties"):
        return f"object of {_kind(values)}"
    return str(schema.get("type", "any"))


def labels_markdown() -> str:
    """The labels `wattpack.*`."""
    rows = (
        f"| `{each.name}` | {each.set_on} | {each.values} | {each.default} | {each.meaning} |"
        for each in (*LABELS, *extend("labels", "LABELS"))
    )
    return "\n".join(("| label | set on | values | default | meaning |", "|---|---|---|---|---|", *rows))


_DEFINITION = re.compile(
    r"^\*\*(?P<words>[^*]+)\*\*(?P<sense> \([^)]*\))?: (?P<text>.+?)(?=\n\n|\Z)", re.MULTILINE | re.DOTALL
)
_MARKUP = re.compile(r"\[([^]]*)\]\([^)]*\)|[`*]")


def glossary_json() -> str:
    """The definitions of the glossary by word, as plain text, for the tooltips of the web page."""
    text = (Path(__file__).parents[1] / "docs/glossary.md").read_text(encoding="utf-8")
    definitions = {
        f"{word}{found['sense'] or ''}": _MARKUP.sub(r"\1", " ".join(found["text"].split()))
        for found in _DEFINITION.finditer(text)
        for word in found["words"].split(", ")
    }
    return json.dumps(definitions, indent=1, ensure_ascii=False) + "\n"


def _page(lines: Callable[..., Iterator[str]], *arguments: str) -> str:
    return "\n".join(lines(*arguments))


PAGES: dict[str, Callable[[], str]] = {
    "docs/configuration.md": partial(_page, _configuration),
    "docs/metrics.md": partial(_page, _metrics),
    "docs/api.md": partial(_page, _api),
    "collector/serve/web/assets/core/glossary.json": glossary_json,
    **{f"systemd/{role}.toml": partial(_page, _settings_file, role) for role in _ROLES},
}


SECTIONS: dict[str, Callable[[], str]] = {"docs/operations.md": labels_markdown}
"""Pages with one generated part, between two comments."""
_SECTION = re.compile(r"(<!-- Made from code by ./dev docs -->\n).*?(\n<!-- end -->)", re.DOTALL)


def with_section(page: str, section: str) -> str:
    """A page with its generated part replaced."""
    return _SECTION.sub(lambda marks: marks[1] + section + marks[2], page)


def main(root: Path = Path()) -> None:
    """Write every generated page and section."""
    for name, page in PAGES.items():
        (root / name).write_text(page(), encoding="utf-8")
    for name, section in SECTIONS.items():
        text = (root / name).read_text(encoding="utf-8")
        (root / name).write_text(with_section(text, section()), encoding="utf-8")


if __name__ == "__main__":
    main()

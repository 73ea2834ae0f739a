"""Stack files (Compose): the deployment requests of their services, and the file with temporary constraints.

Only the keys that matter for placement are read; all others go to Docker unchanged, which checks them.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from collector.features.deployments.models import ServiceDeployment
from wire.errors import UserError, os_reason

Document = dict[str, Any]

_VARIABLE = re.compile(
    r"\$(?:\$|(?P<plain>[A-Za-z_]\w*)|\{(?P<name>[A-Za-z_]\w*)(?:(?P<how>:?[-?])(?P<rest>[^}]*))?\})"
)
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[bkmgt]?)b?", re.IGNORECASE)
_CORES = re.compile(r"\d+(?:\.\d*)?|\.\d+", re.ASCII)
_UNITS = "bkmgt"


_MAX_NODES = 1_000_000
"""Maximum number of values of a stack file, with all aliases expanded."""


class _Loader(yaml.SafeLoader):
    """Reads scalars as Docker does: no numbers to base 60, no dates, and only true and false are booleans.

    Aliases of aliases can stand for any number of values: such a file is refused before it is expanded.
    """

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._sizes: dict[yaml.Node, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        is_alias = self.check_event(yaml.AliasEvent)
        node: yaml.Node | None = super().compose_node(parent, index)
        if node is None:
            return None
        if is_alias and node not in self._sizes:
            raise yaml.composer.ComposerError(None, None, "an alias contains itself", node.start_mark)
        if not is_alias:
            self._sizes[node] = 1 + sum(self._sizes[each] for each in _children(node))
        if self._sizes[node] > _MAX_NODES:
            raise yaml.composer.ComposerError(None, None, "too many values", node.start_mark)
        return node


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        yield from (each for pair in node.value for each in pair)
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag in {"tag:yaml.org,2002:null", "tag:yaml.org,2002:merge"}
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _kind, _pattern, _first in (
    ("bool", r"(?:true|false|True|False)$", "tTfF"),
    ("int", r"[-+]?(?:0[0-7]*|[1-9]\d*)$", "-+0123456789"),
    ("float", r"[-+]?(?:0|[1-9]\d*)\.\d+$", "-+0123456789"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(_pattern), list(_first))


def read_stack(file: Path) -> Document:
    """Read a stack file."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = os_reason(error) if isinstance(error, OSError) else "not UTF-8 text"
        raise UserError(f"cannot read {file} ({reason}): check its path") from None
    return parse_stack(text, str(file))


def stack_name(document: Document, file: Path) -> str:
    """The name of a stack: as in its file, or else that of its folder."""
    return str(document.get("name") or file.resolve().parent.name)


def parse_stack(text: str, name: str) -> Document:
    """Parse a stack file; `name` is for errors."""
    try:
        document = yaml.load(text, _Loader)  # noqa: S506 - a safe loader, only stricter
    except yaml.YAMLError as error:
        raise UserError(f"{name} is not valid YAML: {error}") from None
    except RecursionError:
        raise UserError(f"{name} is nested too deeply") from None
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        # A tag such as !!int whose value is none, or a number with thousands of digits.
        raise UserError(f"{name} has an invalid value: {error}") from None
    services = document.get("services") if isinstance(document, dict) else None
    if not isinstance(services, dict) or not services:
        raise UserError(f"{name} has no services: write them under the key services")
    for key, service in services.items():
        if not isinstance(service, dict):
            raise UserError(f"{name}: services.{key} must be a table: write its image below it, indented")
    return dict(document)


def service_requests(
    document: Document, stack: str, variables: Mapping[str, str] = os.environ
) -> list[dict[str, Any]]:
    """Return the services of a stack in the form of `POST /v1/deploy`."""
    return [
        {**_service_request(f"{stack}_{key}", interpolate(service, variables), key), "application": stack}
        for key, service in document["services"].items()
    ]


def _service_request(name: str, service: Document, key: str) -> dict[str, Any]:
    deploy = _table(service, "deploy", key)
    placement = _table(deploy, "placement", key)
    resources = _table(deploy, "resources", key)
    limits, reservations = _table(resources, "limits", key), _table(resources, "reservations", key)
    mode = deploy.get("mode") or "replicated"
    if mode not in {"replicated", "global"}:
        mode = "global"  # a job: Docker starts it by itself
    try:
        request: dict[str, Any] = {
            "name": name,
            "image": service.get("image"),
            "mode": mode,
            "replicas": parse_count(deploy.get("replicas", 1), "replicas"),
            "reserve": parse_resources({**limits, **reservations}),
            "labels": {**_labels(service.get("labels")), **_labels(deploy.get("labels"))},
            "constraints": [str(each) for each in placement.get("constraints") or ()],
            "max_replicas_per_node": parse_count(
                placement.get("max_replicas_per_node") or 0, "max_replicas_per_node"
            ),
        }
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"services.{key}: {error}") from None
    return {field: value for field, value in request.items() if value is not None}


def constrained_stack(document: Document, stack: str, deployments: Iterable[ServiceDeployment]) -> str:
    """Return the stack file with the temporary constraints and labels of its services, as YAML."""
    services = dict(document["services"])
    for each in deployments:
        if each.left_to_orchestrator is not None:
            continue
        key = each.name.removeprefix(f"{stack}_")
        service = dict(services[key])
        deploy = dict(service.get("deploy") or {})
        placement = dict(deploy.get("placement") or {})
        constraints = [*(placement.get("constraints") or ()), *each.constraints]
        deploy["placement"] = {**placement, "constraints": constraints}
        # Docker would interpret a dollar sign as a variable.
        labels = {label: value.replace("$", "$$") for label, value in each.labels.items()}
        deploy["labels"] = {**_labels(deploy.get("labels")), **labels}
        deploy["replicas"] = each.replicas
        services[key] = {**service, "deploy": deploy}
    return yaml.safe_dump({**document, "services": services}, sort_keys=False)


def _table(parent: Document, field: str, key: str) -> Document:
    found = parent.get(field) or {}
    if not isinstance(found, dict):
        raise UserError(f"services.{key}: {field} must be a table")
    return found


def _labels(labels: object) -> dict[str, str]:
    """Labels are a table, or a list of `key=value`."""
    if isinstance(labels, list):
        pairs = (str(each).partition("=") for each in labels)
        return {key: value for key, _, value in pairs}
    if isinstance(labels, dict):
        return {str(key): _text(value) for key, value in labels.items()}
    return {}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def parse_resources(resources: Document) -> dict[str, float | int]:
    """A number of cores and a size of memory, as far as they are given."""
    found: dict[str, float | int] = {}
    if resources.get("cpus") is not None:
        found["cpu_cores"] = parse_cores(resources["cpus"])
    if resources.get("memory") is not None:
        found["memory_bytes"] = parse_docker_size(str(resources["memory"]))
    return found


def parse_count(value: object, field: str) -> int:
    """A number of containers; `field` is for errors."""
    text = str(value).strip()
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{field} must be a number of containers such as 3, not {value!r}")
    return int(text)


def parse_cores(value: object) -> float:
    """A number of CPU cores, as Docker reads it."""
    text = str(value).strip()
    if _CORES.fullmatch(text) is None:
        raise ValueError(f"cpus must be a number of cores such as 0.5, not {value!r}")
    return float(text)


def parse_docker_size(text: str) -> int:
    """`512M` or `1gb`, in powers of 1024, as Docker reads it."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a size: use a value such as 512M or 1G")
    return int(float(found["number"]) * 1024 ** _UNITS.index(found["unit"].lower() or "b"))


def interpolate(value: Any, variables: Mapping[str, str]) -> Any:  # noqa: ANN401 - any part of a document
    """Replace variables as Docker does."""
    if isinstance(value, dict):
        return {key: interpolate(each, variables) for key, each in value.items()}
    if isinstance(value, list):
        return [interpolate(each, variables) for each in value]
    if not isinstance(value, str):
        return value

    def replace(found: re.Match[str]) -> str:
        name = found["plain"] or found["name"]
        if name is None:
            return "$"
        given = variables.get(name)
        how, rest = found["how"] or "", found["rest"] or ""
        if given is None or (how.startswith(":") and not given):
            if how.endswith("?"):
                raise UserError(f"the variable {name} is not set: {rest or 'the stack file requires it'}")
            return rest if how.endswith("-") else ""
        return given

    return _VARIABLE.sub(replace, value)

"""`wattpack hint app`: place all containers of an application from a Compose file."""

import argparse
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collector.act.orchestrator_state import ROLE, parse_constraint
from collector.common.applications import is_named
from collector.common.labels import DELAY_MAX_LABEL, TALKS_TO_LABEL
from collector.decide.policies.actions import describe
from collector.features.network.routes import MAX_CONTAINERS, MAX_SERVICES, ApplicationHint
from wattpack.client.collector import add_collector_options, post
from wattpack.client.stack import (
    Document,
    interpolate,
    parse_count,
    parse_resources,
    read_stack,
    service_requests,
    stack_name,
)
from wattpack.commands.hint_container import add_placement_arguments, delay_seconds, placement_question
from wattpack.config.arguments import add
from wattpack.output.text import count_text, milliseconds_text, print_result, table
from wire.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "FILE", "Compose file of the application", Path)
    add(parser, "--name NAME", "name of the application (default: as in the file, or its folder)")
    add_placement_arguments(parser)
    add_collector_options(parser)


def run(arguments: argparse.Namespace) -> int:
    document = read_stack(arguments.file)
    name = arguments.name or stack_name(document, arguments.file)
    found = read_application(document, name)
    question = placement_question(arguments) | {
        "application": name,
        "services": [each | {"exclude": arguments.exclude} for each in found.services],
    }
    hint = post(arguments, "/v1/hints/application", question, ApplicationHint)
    print_result(arguments, hint, format_application(hint, found.notes))
    return 0 if hint.placed else 1


@dataclass(frozen=True, slots=True)
class ApplicationFile:
    """The application in a Compose file."""

    services: list[dict[str, Any]] = field(default_factory=list)
    """Services in the form of `POST /v1/hints/application`."""
    notes: list[str] = field(default_factory=list)
    """Services and keys that are not taken into account."""


def read_application(
    document: Document, name: str, variables: Mapping[str, str] = os.environ
) -> ApplicationFile:
    """Return the services of a Compose file. Raise `UserError` if there is none to place."""
    found = ApplicationFile()
    plain = {key: interpolate(each, variables) for key, each in document["services"].items()}
    for key, service in zip(plain, service_requests(document, name, variables), strict=True):
        whole = service["name"]
        replicas = _replicas(plain[key], service["replicas"], key)
        if service["mode"] == "global":
            found.notes.append(f"{whole} is left out: it runs on every node, or is a job")
            continue
        if not replicas:
            found.notes.append(f"{whole} is left out: it has no replicas")
            continue
        if service["max_replicas_per_node"]:
            found.notes.append(f"max_replicas_per_node of {whole} is not taken into account")
        if DELAY_MAX_LABEL in service["labels"]:
            # An invalid bound counts as none for containers that run; here its author can still correct it.
            delay_seconds(service["labels"][DELAY_MAX_LABEL], f"services.{key}: the label {DELAY_MAX_LABEL}")
        found.notes.extend(_unknown_peers(service["labels"], whole, {f"{name}_{each}" for each in plain}))
        constraints, unknown = _constraints(service["constraints"])
        found.notes.extend(f"the constraint {each} of {whole} is not checked" for each in unknown)
        request = {
            "service": whole,
            "image": service.get("image"),
            "replicas": replicas,
            "reserve": _plain_resources(plain[key], key) | service["reserve"],
            "labels": service["labels"],
            "constraints": constraints,
        }
        found.services.append({field: value for field, value in request.items() if value is not None})
    if not found.services:
        raise UserError(f"{name} has no container to place: {'; '.join(found.notes)}")
    _check_limits(found.services, name)
    return found


def _replicas(service: Document, replicas: int, key: str) -> int:
    """Return the number of containers; Compose has another key for it too."""
    if "replicas" in (service.get("deploy") or {}) or service.get("scale") is None:
        return replicas
    try:
        return parse_count(service["scale"], "scale")
    except ValueError as error:
        raise UserError(f"services.{key}: {error}") from None


def _plain_resources(service: Document, key: str) -> dict[str, float | int]:
    """Return the reservation outside the key `deploy`."""
    memory = service.get("mem_reservation") or service.get("mem_limit") or None
    try:
        return parse_resources({"cpus": service.get("cpus") or None, "memory": memory})
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"services.{key}: {error}") from None


def _unknown_peers(labels: Mapping[str, str], service: str, known: set[str]) -> Iterator[str]:
    """Note the services that a label names and the file does not contain; they may run already."""
    for each in labels.get(TALKS_TO_LABEL, "").split(","):
        if each.strip() and not any(is_named(other, each.strip()) for other in known):
            yield f"{service} talks to {each.strip()}, which is not in the file: check {TALKS_TO_LABEL}"


def _check_limits(services: list[dict[str, Any]], name: str) -> None:
    containers = sum(each["replicas"] for each in services)
    if len(services) > MAX_SERVICES or containers > MAX_CONTAINERS:
        raise UserError(
            f"{name} has {count_text(len(services), 'service')} and {count_text(containers, 'container')},"
            f" limit {MAX_SERVICES} and {MAX_CONTAINERS}: split the file into parts"
        )


def _constraints(written: list[str]) -> tuple[list[str], list[str]]:
    """Return Swarm's constraints on names and labels of nodes as conditions, and all others."""
    known, unknown = [], []
    for text in written:
        constraint = parse_constraint(text)
        if constraint is None or constraint.label == ROLE:
            unknown.append(text)
        else:
            known.append(str(constraint))
    return known, unknown


def format_application(hint: ApplicationHint, notes: list[str]) -> Iterator[str]:
    """The lines of a response."""
    bound = "" if hint.delay_max_seconds is None else f", bound {milliseconds_text(hint.delay_max_seconds)}"
    yield f"Application {hint.application}, policy {hint.policy}{bound}."
    yield ""
    if hint.placed:
        rows = [
            (service, node, str(count))
            for service, nodes in hint.services.items()
            for node, count in sorted(nodes.items())
        ]
        yield from table(("SERVICE", "NODE", "CONTAINERS"), rows)
        yield ""
        yield from hint.reasons
    else:
        yield f"Nothing is placed: {hint.why_not}."
        for each in hint.needed:
            yield f"Needed: {each}."
    for action in hint.needs:
        yield f"First: {describe(action)} ({'; '.join(action.reasons)})."
    for note in (*hint.notes, *notes):
        yield f"Note: {note}."
    if hint.reservations:
        nodes = sorted({each.node for each in hint.reservations})
        places = count_text(len(hint.reservations), "place")
        yield f"Reserved {places} on {', '.join(nodes)} until the containers start."

"""`wattpack room`: make room for a container that fits nowhere, or list the containers that wait for room."""

import argparse
from collections.abc import Iterator
from typing import Any

import msgspec

from collector.api.control import WaitingContainers
from wattpack.client.collector import add_collector_options, query_collector
from wattpack.commands.hint import add_container_arguments, add_policy_arguments, container_question
from wattpack.commands.history import format_decisions
from wattpack.output.table import table
from wattpack.output.text import json_text, time_text

_TIMEOUT_SECONDS = 900.0
"""A decision can stop and start several containers, one after the other."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--waiting",
        action="store_true",
        help="list the containers that were stopped to make room and start again as soon as they fit",
    )
    add_container_arguments(parser)
    add_policy_arguments(parser)
    add_collector_options(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.waiting:
        response = query_collector(arguments, lambda collector: collector.get("/v1/room"))
        lines = list(format_waiting(msgspec.convert(response, WaitingContainers)))
    else:
        question = msgspec.to_builtins(container_question(arguments))
        response = query_collector(
            arguments,
            lambda collector: collector.post("/v1/room", question),
            timeout_seconds=_TIMEOUT_SECONDS,
        )
        lines = list(format_room(response))
    print(json_text(response) if arguments.json else "\n".join(lines))
    return 0


def format_room(decision: dict[str, Any]) -> Iterator[str]:
    """The decision, and where the container fits."""
    yield from format_decisions([decision])
    yield from (f"    {reason}" for reason in decision["reasons"])
    if decision["dry"] and decision["steps"]:
        yield "The driver is none, so nothing is carried out. To act, set driver.name in collector.toml."


def format_waiting(found: WaitingContainers) -> Iterator[str]:
    """One line per waiting container."""
    if not found.waiting:
        yield "No container waits for room."
        return
    rows = [
        (
            each.name,
            each.service or "-",
            str(each.task_class),
            each.node,
            time_text(each.since),
            each.decision,
        )
        for each in found.waiting
    ]
    yield from table(("CONTAINER", "SERVICE", "CLASS", "STOPPED ON", "SINCE", "DECISION"), rows)

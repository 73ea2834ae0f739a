"""`wattpack control room`: make room for a container that fits nowhere, or list those that wait for room."""

import argparse
from collections.abc import Iterator

import msgspec

from collector.serve.api.control import WaitingContainers
from wattpack.client.collector import Json, add_collector_options, get, post
from wattpack.commands.control_history import format_decisions
from wattpack.commands.hint_container import add_container_arguments, container_question
from wattpack.config.arguments import add
from wattpack.output.table import table
from wattpack.output.text import print_result, time_text

_TIMEOUT_SECONDS = 900.0
"""A decision can stop and start several containers, one after the other."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "--waiting", "list containers that were stopped to make room, and start again once they fit")
    add_container_arguments(parser)
    add_collector_options(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.waiting:
        waiting = get(arguments, "/v1/room")
        return print_result(arguments, waiting, format_waiting(msgspec.convert(waiting, WaitingContainers)))
    question = msgspec.to_builtins(container_question(arguments))
    decision = post(arguments, "/v1/room", question, _TIMEOUT_SECONDS)
    return print_result(arguments, decision, _room_lines(decision))


def _room_lines(decision: Json) -> Iterator[str]:
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

"""`wattpack control room`: make room for a container that fits nowhere, or list those that wait for room."""

import argparse
from collections.abc import Iterable, Iterator

import msgspec

from collector.serve.api.control import WaitingContainers
from wattpack.client.collector import Json, add_collector_options, get, post
from wattpack.commands.control import format_decisions
from wattpack.commands.hint_container import add_container_arguments, container_question
from wattpack.config.arguments import add
from wattpack.output.text import Columns, columns_table, print_result, time_text

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
    decision = post(arguments, "/v1/room", question, Json, _TIMEOUT_SECONDS)
    return print_result(arguments, decision, _room_lines(decision))


def _room_lines(decision: Json) -> Iterator[str]:
    """The decision, and where the container fits."""
    yield from format_decisions([decision])
    yield from (f"    {reason}" for reason in decision["reasons"])
    if decision["dry"] and decision["steps"]:
        yield "The driver is none, so nothing is carried out. To act, set driver.name in collector.toml."


def format_waiting(found: WaitingContainers) -> Iterable[str]:
    """One line per waiting container."""
    return columns_table(_COLUMNS, found.waiting) if found.waiting else ["No container waits for room."]


_COLUMNS: Columns = {
    "CONTAINER": lambda each: each.name,
    "SERVICE": lambda each: each.service or "-",
    "CLASS": lambda each: str(each.task_class),
    "STOPPED ON": lambda each: each.node,
    "SINCE": lambda each: time_text(each.since),
    "DECISION": lambda each: each.decision,
}

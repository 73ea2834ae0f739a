"""Finds and imports the subcommand, and prints a `UserError` as one sentence."""

import argparse
import difflib
import importlib
import io
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Protocol, TextIO, cast

from wattpack.output.stream import PrintableStream
from wire.errors import UserError
from wire.text import printable_lines


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand, its one-line summary, and its module."""

    name: str
    summary: str

    @property
    def module(self) -> str:
        return f"wattpack.commands.{self.name.replace('-', '_')}"


COMMANDS = (
    Command("up", "run a collector and an agent for this host, and show its power"),
    Command("demo", "run a collector with a simulated cluster, to try everything"),
    Command("agent", "run the agent of this host, or take one sample with --once"),
    Command("collector", "run the collector"),
    Command("status", "show the state of the cluster, and what to do next"),
    Command("nodes", "list nodes"),
    Command("containers", "list containers, highest power first"),
    Command("services", "list services with the resources that one container needs"),
    Command("apps", "list applications, and the round-trip times of their nodes"),
    Command("size", "recommend requests and limits of services, with a patch to paste"),
    Command("elastic", "show elastic services: replicas, load, and learned behaviour"),
    Command("alerts", "list bottlenecks, silent nodes and overbooked nodes"),
    Command("slo", "show the promised and delivered availability of services"),
    Command("network", "show round-trip times between nodes, and clusters of near nodes"),
    Command("energy", "show energy by node, container, service, label or day"),
    Command("top", "show nodes and containers live in the terminal"),
    Command("hint", "rank nodes for a container, with reasons"),
    Command("room", "make room for a container that fits nowhere"),
    Command("what-if", "estimate the power of more or less load on each node"),
    Command("plan", "show what a policy would move or switch off; change nothing"),
    Command("deploy", "deploy a stack file on a Swarm, on nodes that the policy chooses"),
    Command("run", "create a Swarm service on nodes that the policy chooses"),
    Command("doctor", "check what this host can measure, and how to enable the rest"),
    Command("calibrate", "fit a power model to this host, by its meter or a recording"),
    Command("evaluate", "measure the accuracy of power models on recordings"),
    Command("replay", "compare policies on a recorded workload: energy, moves, overload"),
    Command("data", "list data sets for replay and evaluate, or write a sample"),
    Command("history", "list decisions of the control loop with reasons and outcome"),
    Command("pause", "pause the control loop, for a time or until resumed"),
    Command("resume", "resume the control loop after a pause"),
    Command("join", "let this host report to a collector, with a join token"),
    Command("token", "add, list, rotate and revoke tokens for access to the collector"),
    Command("repair", "check the collector's history for damage, and repair it"),
    Command("check-config", "check a configuration file"),
    Command("completion", "print the completion script of a shell: bash, zsh or fish"),
    Command("version", "print the version"),
)


_NEGATIVE, _LONG_OPTION = re.compile(r"-[0-9.]"), re.compile(r"--[a-z-]+")
_INTERACTIVE = frozenset({"top", "up"})
"""Commands that write control characters to the terminal. They escape foreign text by `printable`."""


class _Implementation(Protocol):
    """The interface of a module in `wattpack.commands`."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> int: ...


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status (2 for a `UserError`)."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # In a POSIX locale, a character that cannot be shown is replaced instead of an error.
            stream.reconfigure(errors="replace")
    name, *rest = (sys.argv[1:] if argv is None else list(argv)) or ["--help"]
    if name in {"-h", "--help", "help"}:
        print(_overview())
        return 0
    try:
        command = _find("version" if name == "--version" else name)
        implementation = cast("_Implementation", importlib.import_module(command.module))
        parser = argparse.ArgumentParser(prog=f"wattpack {command.name}", description=command.summary)
        implementation.add_arguments(parser)
        arguments = parser.parse_args(_with_negatives(rest))
        if command.name in _INTERACTIVE:
            return implementation.run(arguments)
        with redirect_stdout(cast("TextIO", PrintableStream(sys.stdout))):
            return implementation.run(arguments)
    except UserError as error:
        print(f"wattpack: {printable_lines(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of the output has exited, as in `wattpack ... | head`.
        sys.stderr.close()
        return 141


def _with_negatives(arguments: Sequence[str]) -> list[str]:
    """Join an option and a negative value such as `-5m`: argparse takes it for an option, and says so."""
    joined: list[str] = []
    for each in arguments:
        if joined and _NEGATIVE.match(each) and _LONG_OPTION.fullmatch(joined[-1]):
            joined[-1] += f"={each}"
        else:
            joined.append(each)
    return joined


def _find(name: str) -> Command:
    for command in COMMANDS:
        if command.name == name:
            return command
    near = difflib.get_close_matches(name, [command.name for command in COMMANDS], n=1)
    hint = f"did you mean {near[0]!r}?" if near else "'wattpack --help' lists all commands"
    raise UserError(f"unknown command {name!r}: {hint}")


def _overview() -> str:
    width = max(len(command.name) for command in COMMANDS)
    lines = [f"  {command.name:<{width}}  {command.summary}" for command in COMMANDS]
    return "\n".join(
        [
            "usage: wattpack COMMAND [OPTIONS]",
            "",
            *lines,
            "",
            "Run 'wattpack COMMAND --help' for the options of a command.",
            "docs/glossary.md explains words such as envelope, beacon and region.",
        ]
    )

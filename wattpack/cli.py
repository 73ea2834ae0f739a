"""The front door: finds the subcommand, imports only that one, and turns complaints into one sentence."""

import argparse
import difflib
import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from wire.errors import UserError


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand: its name, what it does in one line, and where it lives."""

    name: str
    summary: str

    @property
    def module(self) -> str:
        return f"wattpack.commands.{self.name.replace('-', '_')}"


COMMANDS = (
    Command("up", "start a collector and an agent for this host, and show what it draws"),
    Command("agent", "run the agent of this host; --once takes one sample and ends"),
    Command("collector", "run the collector"),
    Command("status", "say how the cluster is, on one screen, and what to do next"),
    Command("nodes", "list the nodes that a collector knows"),
    Command("containers", "list the containers that a collector knows, the hungriest first"),
    Command("services", "list services, with what one container of each needs"),
    Command("alerts", "list what is short, quiet, hot or overbooked"),
    Command("energy", "say what was drawn in a period: by node, container, service, label or day"),
    Command("top", "show hosts and containers, live in the terminal"),
    Command("hint", "say where a container should go, and why"),
    Command("plan", "say what should be moved, cut or switched now, and why; it changes nothing"),
    Command("doctor", "say what this host can measure, and how to open what it cannot"),
    Command("calibrate", "fit a power model to this host, with its own meter or a recording"),
    Command("evaluate", "say how far off the power models are on recordings of metered machines"),
    Command("replay", "say what policies would have made of a recorded time: energy, moves, overload"),
    Command("data", "list the data sets that replay, evaluate and the benchmarks read; write a sample"),
    Command("history", "say what was decided, why, and what came of it; --replay makes a decision again"),
    Command("pause", "stop all acting, for a time or until resumed"),
    Command("resume", "act again after a pause"),
    Command("token", "make, list and revoke tokens: who may report to the collector, and ask it"),
    Command("check-config", "say whether a configuration file is right"),
    Command("version", "print the version"),
)


class _Implementation(Protocol):
    """What a module of `wattpack.commands` offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> int: ...


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status (2: the user has to change something)."""
    name, *rest = (sys.argv[1:] if argv is None else list(argv)) or ["--help"]
    if name in {"-h", "--help", "help"}:
        print(_overview())
        return 0
    try:
        command = _find("version" if name == "--version" else name)
        implementation = cast("_Implementation", importlib.import_module(command.module))
        parser = argparse.ArgumentParser(prog=f"wattpack {command.name}", description=command.summary)
        implementation.add_arguments(parser)
        return implementation.run(parser.parse_args(rest))
    except UserError as complaint:
        print(f"wattpack: {complaint}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output has gone, as in `wattpack ... | head`; nothing is left to say.
        sys.stderr.close()
        return 141


def _find(name: str) -> Command:
    for command in COMMANDS:
        if command.name == name:
            return command
    near = difflib.get_close_matches(name, [command.name for command in COMMANDS], n=1)
    hint = f"did you mean {near[0]!r}?" if near else "'wattpack --help' lists them all"
    raise UserError(f"there is no command {name!r}: {hint}")


def _overview() -> str:
    width = max(len(command.name) for command in COMMANDS)
    lines = [f"  {command.name:<{width}}  {command.summary}" for command in COMMANDS]
    return "\n".join(
        [
            "usage: wattpack COMMAND [OPTIONS]",
            "",
            *lines,
            "",
            "'wattpack COMMAND --help' tells the options of one.",
        ]
    )

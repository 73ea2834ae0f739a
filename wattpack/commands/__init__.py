"""The table of commands, and their modules: `control room` is in `control_room`.

A module offers `add_arguments(parser)` and `run(arguments) -> exit status`, and is imported when its command
runs. Sub-commands without a module of their own are in the table `FUNCTIONS` of the module of their group,
and other commands without one in that of `lists`.
"""

import argparse
import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from wire.errors import UserError

_NAME_WIDTH = 12


class Functions(NamedTuple):
    """What a command consists of."""

    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


@dataclass(frozen=True, slots=True)
class Command:
    """A command, or a sub-command: its name has both words."""

    name: str
    summary: str
    parts: list["Command"] = field(default_factory=list)
    """Its sub-commands. A command with some has no arguments but options."""
    runs_alone: bool = True

    def functions(self) -> Functions:
        """Import the module."""
        names = (re.sub("[ -]", "_", self.name), self.name.partition(" ")[0], "lists")
        name = next(name for name in names if find_spec(f"{__name__}.{name}"))
        module: Any = import_module(f"{__name__}.{name}")
        if hasattr(module, "FUNCTIONS"):
            return Functions(*module.FUNCTIONS[self.name])
        return Functions(module.add_arguments, module.run)

    def parser(self) -> argparse.ArgumentParser:
        """The parser of the options; its help lists the sub-commands."""
        epilog = "\n".join(("commands:", *list_lines(self.parts))) if self.parts else None
        parser = argparse.ArgumentParser(
            prog=f"wattpack {self.name}",
            usage=None if self.runs_alone else f"wattpack {self.name} COMMAND [OPTIONS]",
            description=self.summary,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if self.runs_alone:
            self.functions().add_arguments(parser)
        return parser


_TABLE = """
Try it
  up                run a collector and an agent for this host, and show its power
  demo              run a collector with a simulated cluster, to try everything
Run it
  agent             run the agent of this host, or take one sample with --once
    join            let this host report to a collector, with a join token
  collector         run the collector
  power COMMAND     check, calibrate and evaluate how watts are measured
    doctor          check what this host can measure, and how to enable the rest
    calibrate       fit a power model to this host, by its meter or a recording
    evaluate        measure the accuracy of power models on recordings
See
  status            show the state of the cluster, and what to do next
  top               show nodes and containers live in the terminal
  nodes             list nodes
  containers        list containers, highest power first
  services          list services with the resources that one container needs
    elastic         show elastic services: replicas, load, and reasons
    slo             show the promised and delivered availability of services
    apps            list applications, and the round-trip times of their nodes
  network           show round-trip times between nodes, and clusters of near nodes
  alerts            list bottlenecks, silent nodes and overbooked nodes
  energy            show energy by node, container, service, label or day
Decide
  hint COMMAND      find out where a container should run, and what more load costs
    container       rank nodes for a container, with reasons
    app             place all containers of an application from a Compose file
    what-if         estimate the power of more or less load on each node
  plan              show what a policy would move or switch off; change nothing
  size              recommend requests and limits of services, with a patch to paste
  replay            compare policies on a recorded workload: energy, moves, overload
  data              list data sets for 'replay' and 'power evaluate'
Act
  deploy COMMAND    start containers on a Swarm, on nodes that the policy chooses
    stack           deploy a stack file, instead of 'docker stack deploy'
    service         create a service, instead of 'docker service create'
  control COMMAND   follow, pause and use the control loop, which carries out plans
    history         list decisions of the control loop with reasons and outcome
    pause           pause the control loop, for a time or until resumed
    resume          resume the control loop after a pause
    room            make room for a container that fits nowhere
Administer
  token COMMAND     add, list, rotate and revoke tokens for access to the collector
    add             create a token and print its secret once
    list            list tokens, without their secrets
    rotate          replace the secret of a token; the old one is revoked
    revoke          revoke a token; it takes effect within a second
  admin COMMAND     check settings, repair a history, complete commands in a shell
    check-config    check a configuration file
    repair          check the collector's history for damage, and repair it
    completion      print the completion script of a shell: bash, zsh or fish
"""
"""A command whose name is followed by COMMAND does nothing without a sub-command."""


def _parse(table: str) -> dict[str, list[Command]]:
    groups: dict[str, list[Command]] = {}
    commands: list[Command] = []
    for line in table.strip().splitlines():
        name, _, summary = re.sub(" {2,}", "\t", line.strip()).partition("\t")
        if not summary:
            commands = groups[line] = []
        elif line.startswith("    "):
            commands[-1].parts.append(Command(f"{commands[-1].name} {name}", summary))
        else:
            first, _, needs_more = name.partition(" ")
            commands.append(Command(first, summary, runs_alone=not needs_more))
    return groups


COMMANDS = _parse(_TABLE)
"""All commands, by what one wants to do."""


def find_command(arguments: Sequence[str]) -> tuple[Command, Sequence[str]]:
    """The command that the first words name, and the arguments after them; raises `UserError`."""
    name, *rest = arguments
    command = _named(name, "", [each for commands in COMMANDS.values() for each in commands])
    if command.parts and rest and not rest[0].startswith("-"):
        return _named(rest[0], f"{name} ", command.parts), rest[1:]
    return command, rest


def _named(word: str, before: str, commands: Sequence[Command]) -> Command:
    known = {command.name.removeprefix(before): command for command in commands}
    if word in known:
        return known[word]
    near = difflib.get_close_matches(word, known, n=1)
    hint = f"did you mean '{before}{near[0]}'?" if near else f"'wattpack {before}--help' lists all commands"
    raise UserError(f"unknown command '{before}{word}': {hint}")


def list_lines(commands: Sequence[Command]) -> Iterator[str]:
    """Lines of a help text: the last word of each command, and its summary."""
    for command in commands:
        yield f"  {command.name.rpartition(' ')[2]:<{_NAME_WIDTH}}  {command.summary}"

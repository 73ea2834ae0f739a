"""`wattpack admin completion`: print the completion script of a shell."""

import argparse

from wattpack.commands import every_command
from wattpack.config.arguments import add
from wattpack.output.completion import SCRIPTS, CommandLine, describe_command

_HOW = {
    "bash": "source <(wattpack admin completion bash)",
    "zsh": "source <(wattpack admin completion zsh), after compinit",
    "fish": "wattpack admin completion fish | source",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    how = "; ".join(f"{shell}: {how}" for shell, how in _HOW.items())
    add(parser, "|".join(SCRIPTS), how, dest="shell")


def run(arguments: argparse.Namespace) -> int:
    print("\n".join(SCRIPTS[arguments.shell](describe_commands())))
    return 0


def describe_commands() -> list[CommandLine]:
    """The options of every command and sub-command."""
    return [
        describe_command(
            each.name, each.summary, [part.name.partition(" ")[2] for part in each.parts], each.parser()
        )
        for each in every_command()
    ]

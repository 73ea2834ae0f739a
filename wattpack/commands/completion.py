"""`wattpack completion`: print the completion script of a shell."""

import argparse
import importlib
from pkgutil import iter_modules

import wattpack.commands
from wattpack.output.completion import SCRIPTS, CommandLine, describe_command

_HOW = {
    "bash": "source <(wattpack completion bash)",
    "zsh": "source <(wattpack completion zsh), after compinit",
    "fish": "wattpack completion fish | source",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "shell", choices=tuple(SCRIPTS), help="; ".join(f"{shell}: {how}" for shell, how in _HOW.items())
    )


def run(arguments: argparse.Namespace) -> int:
    print("\n".join(SCRIPTS[arguments.shell](describe_commands())))
    return 0


def describe_commands() -> list[CommandLine]:
    """The options of every command, with the first line of its docstring."""
    described = []
    for found in iter_modules(wattpack.commands.__path__):
        module = importlib.import_module(f"wattpack.commands.{found.name}")
        parser = argparse.ArgumentParser()
        module.add_arguments(parser)
        summary = (module.__doc__ or "").partition("\n")[0].partition(": ")[2].rstrip(".")
        described.append(describe_command(found.name.replace("_", "-"), summary, parser))
    return described

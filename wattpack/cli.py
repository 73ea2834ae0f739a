"""Runs the command that the arguments name, and prints a `UserError` as one sentence."""

import io
import platform
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from typing import Any, TextIO, cast

from wattpack.commands import COMMANDS, find_command, list_lines
from wire.errors import UserError
from wire.text import printable_lines
from wire.version import __version__

_NEGATIVE, _LONG_OPTION = re.compile(r"-[0-9.]"), re.compile(r"--[a-z-]+")
_INTERACTIVE = frozenset({"top", "up"})
"""Commands that write control characters to the terminal. They escape foreign text by `printable`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status (2 for a `UserError`)."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # In a POSIX locale, a character that cannot be shown is replaced instead of an error.
            stream.reconfigure(errors="replace")
    given = (sys.argv[1:] if argv is None else list(argv)) or ["--help"]
    if given[0] in {"-h", "--help", "help"}:
        print("\n".join(_overview()))
        return 0
    if given[0] == "--version":
        print(f"wattpack {__version__} (Python {platform.python_version()})")
        return 0
    try:
        return _run(given)
    except UserError as error:
        print(f"wattpack: {printable_lines(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of the output has exited, as in `wattpack ... | head`.
        sys.stderr.close()
        return 141


def _run(given: Sequence[str]) -> int:
    command, rest = find_command(given)
    parser = command.parser()
    arguments = parser.parse_args(_with_negatives(rest))
    if not command.runs_alone:
        parser.print_help()
        return 0
    if command.name in _INTERACTIVE:
        return command.functions().run(arguments)
    with redirect_stdout(cast("TextIO", _PrintableStream(sys.stdout))):
        return command.functions().run(arguments)


class _PrintableStream:
    """Writes text to a stream, with all control characters escaped except line ends and tabs."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(printable_lines(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the stream's attributes
        return getattr(self._stream, name)


def _with_negatives(arguments: Sequence[str]) -> list[str]:
    """Join an option and a negative value such as `-5m`: argparse takes it for an option, and says so."""
    joined: list[str] = []
    for each in arguments:
        if joined and _NEGATIVE.match(each) and _LONG_OPTION.fullmatch(joined[-1]):
            joined[-1] += f"={each}"
        else:
            joined.append(each)
    return joined


def _overview() -> Iterator[str]:
    yield "usage: wattpack COMMAND [OPTIONS]"
    for title, commands in COMMANDS.items():
        yield ""
        yield f"{title}:"
        yield from list_lines(commands)
    yield ""
    yield "Run 'wattpack COMMAND --help' for the options and sub-commands of a command."
    yield "docs/glossary.md explains words such as envelope, beacon and promise."

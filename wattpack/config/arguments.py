"""Options and arguments of commands, declared as their help shows them."""

import argparse
import re
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Any

_CHOICES = re.compile(r"[a-z0-9-]+(\|[a-z0-9-]+)+")


def add(  # noqa: PLR0913 - what argparse takes
    parser: argparse._ActionsContainer,
    usage: str,
    meaning: str,
    convert: Callable[[str], Any] = str,
    *,
    default: object = None,
    dest: str | None = None,
    required: bool = False,
) -> None:
    """Add an option or an argument.

    `--json` is a flag, `--node NAME` has a value, `--state up|down` one of several, `--set KEY=VALUE...` may
    be given several times, and `--history [FILE]` has the default if it is given without a value. `FILE` is
    an argument, `[FILE]` an optional one, and `FILE...` stands for any number.
    """
    flag, value = usage.split(" ", 1) if usage.startswith("--") and " " in usage else ("", usage)
    if value.startswith("--"):
        parser.add_argument(usage, action="store_true", help=meaning)
        return
    is_optional, is_repeated = value.startswith("["), value.endswith("...")
    value = value[1:-1] if is_optional else value.removesuffix("...")
    settings: dict[str, Any] = {"type": convert, "metavar": value, "help": meaning}
    if default is not None:
        settings["const" if flag and is_optional else "default"] = default
        if default != "" and "(default" not in meaning:
            settings["help"] += f" (default: {format(default, 'g' if isinstance(default, float) else '')})"
    if _CHOICES.fullmatch(value):
        settings |= {"choices": [convert(each) for each in value.split("|")], "metavar": None}
    if is_optional:
        settings["nargs"] = "?"
    if flag and is_repeated:
        settings |= {"action": "append", "default": [], "help": f"{meaning}; may be given several times"}
    elif is_repeated:
        settings["nargs"] = "*"
    if flag:
        name = dest or flag.lstrip("-").replace("-", "_")
        parser.add_argument(flag, dest=name, required=required, **settings)
    else:
        parser.add_argument(dest or value.lower(), **settings)


def at_least_zero(text: str) -> float:
    """A number of 0 or more."""
    return _number(text, float, lambda value: 0 <= value < inf, "of 0 or more")


def above_zero(text: str) -> float:
    """A number above 0."""
    return _number(text, float, lambda value: 0 < value < inf, "above 0")


def count(text: str) -> int:
    """A whole number above 0."""
    return int(_number(text, int, lambda value: value > 0, "above 0"))


def _number(
    text: str, convert: Callable[[str], float], is_valid: Callable[[float], bool], wanted: str
) -> float:
    with suppress(ValueError):
        if is_valid(value := convert(text)):
            return value
    raise argparse.ArgumentTypeError(f"{text!r} is not a number {wanted}")

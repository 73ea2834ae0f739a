"""Options and arguments of commands, declared as their help shows them, and those for the configuration."""

import argparse
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any

import msgspec

from wattpack.config.loader import Config, Sources, keys, load

ETC = Path("/etc/wattpack")
WEB_CONFIG = ("http", "web_config")
"""The key of the web configuration, if a role has one."""
CREDENTIALS = {
    WEB_CONFIG: "web.yml",
    ("collector", "token_file"): "token",
    ("tls", "certificate"): "tls.crt",
    ("tls", "key"): "tls.key",
    ("tls", "client_ca"): "client-ca.crt",
}
"""systemd credentials that replace the default of a key."""
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


def add_config_options(parser: argparse.ArgumentParser, role: str) -> None:
    """`--config` and `--set`."""
    add(parser, "--config FILE", f"configuration file (default: {ETC / role}.toml, if it exists)", Path)
    add(parser, "--set KEY=VALUE...", "override a key of the configuration")


def load_config(
    config: type[Config],
    role: str,
    arguments: argparse.Namespace,
    check: Callable[[Config], None] | None = None,
) -> Config:
    """The configuration from defaults, file, environment and `--set`."""
    default = ETC / f"{role}.toml"
    file = arguments.config or (default if default.is_file() else None)
    return load(
        config,
        role,
        Sources(
            base=from_credentials(config, os.environ),
            file=file,
            environment=os.environ,
            assignments=arguments.set,
        ),
        check,
    )


def from_credentials(config: type[msgspec.Struct], environment: Mapping[str, str]) -> dict[str, Any]:
    """Defaults from systemd credentials with the names in `CREDENTIALS`."""
    folder = environment.get("CREDENTIALS_DIRECTORY")
    base: dict[str, Any] = {}
    for key in keys(config):
        if folder and key.path in CREDENTIALS and (file := Path(folder, CREDENTIALS[key.path])).exists():
            table, name = key.path
            base.setdefault(table, {})[name] = str(file)
    return base

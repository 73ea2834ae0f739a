"""`wattpack agent join`: let this host report to a collector, with a join token."""

import argparse
import asyncio
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import tomlkit
from tomlkit.exceptions import TOMLKitError

from agent.features import settings_class
from agent.main import node_name
from agent.sources.host import read_machine
from wattpack.client.collector import (
    CA_VARIABLE,
    JOIN_PATH,
    TOKEN_VARIABLE,
    Collector,
    UnavailableError,
    collector_url,
    open_session,
)
from wattpack.config.arguments import add
from wattpack.config.options import ETC, add_config_options, load_config
from wattpack.output.text import writing
from wire.errors import UserError
from wire.files import replace_file, replace_private
from wire.http.authorization import new_secret, secret_hash
from wire.text import printable

_TIMEOUT = aiohttp.ClientTimeout(total=30)
_TOKEN_FILE = "/var/lib/wattpack-agent/token"  # noqa: S105 - a path
_AS_ROOT = "run this as root"
_COMMENTED = re.compile(r"^\s*#\s*(?P<key>[a-z_]+)\s*=")

Setting = tuple[str, str]
"""A table and a key; the table is empty for a key outside any."""


class _Joined(msgspec.Struct):
    node: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "URL", "address of the collector, such as https://collector:8640")
    add(parser, "TOKEN", "join token from 'wattpack token add join'; - reads it from the input")
    add(parser, "--node NODE", "name of this node (default: as in the agent's settings, else the host name)")
    add(parser, "--ca-file FILE", "CA certificate of the collector")
    add(parser, "--token-file FILE", f"where to store the node's token (default: {_TOKEN_FILE})")
    add_config_options(parser, "agent")


def run(arguments: argparse.Namespace) -> int:
    config = load_config(settings_class(), "agent", arguments)
    node, url = arguments.node or node_name(config), collector_url(arguments.url)
    machine = read_machine(str(config.host.sys))
    if machine is None:
        raise UserError("this machine has no id: run systemd-machine-id-setup, or create a token by hand")
    ca_file = arguments.ca_file or config.collector.ca_file
    token_file = Path(arguments.token_file or config.collector.token_file or _TOKEN_FILE)
    file = arguments.config or ETC / "agent.toml"
    settings = {
        ("", "node"): arguments.node,
        ("collector", "url"): arguments.url,
        ("collector", "token_file"): str(token_file),
        ("collector", "ca_file"): ca_file,
    }
    # Before the request: a file that cannot be changed is no reason to join halfway.
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    text = with_settings(before, {key: value for key, value in settings.items() if value})
    secret = sys.stdin.readline().strip() if arguments.token == "-" else arguments.token  # noqa: S105 - no password
    unfinished = token_file.with_name(f"{token_file.name}.joining")
    with writing(token_file, _AS_ROOT):
        own = _own_token(token_file, unfinished, is_known=config.collector.url.rstrip("/") == url)
    request = {"node": node, "machine": machine, "sha256": secret_hash(own.encode())}
    joined = asyncio.run(_join(url, secret, ca_file, request))
    with writing(file, _AS_ROOT):
        replace_file(file, text.encode())
    with writing(token_file, _AS_ROOT):
        if unfinished.exists():
            unfinished.replace(token_file)
    print(f"{printable(joined.node)} has joined {url}: its token is in {token_file}, the settings in {file}.")
    print("Apply them with: systemctl restart wattpack-agent")
    return 0


def _own_token(token_file: Path, unfinished: Path, *, is_known: bool) -> str:
    """The token that this host registers: of a join whose answer was lost, the present one, or a new one.

    `is_known` tells whether the present one belongs to this collector.
    """
    for file in (unfinished, *([token_file] if is_known else [])):
        if file.exists() and (token := file.read_text(encoding="ascii", errors="replace").strip()):
            return token
    token = new_secret("node")
    replace_private(unfinished, f"{token}\n".encode())
    return token


async def _join(url: str, secret: str, ca_file: str, request: Mapping[str, str]) -> _Joined:
    environment = {TOKEN_VARIABLE: secret, CA_VARIABLE: ca_file}
    async with open_session(_TIMEOUT, environment) as session:
        try:
            return await Collector(session, url).post(JOIN_PATH, request, _Joined)
        except UnavailableError as error:
            raise UserError(f"the collector at {url} {error}: check the URL") from None


# --- Settings in a file that people write ---------------------------------------------------------


def with_settings(text: str, settings: Mapping[Setting, str]) -> str:
    """A settings file with these settings; comments and all other lines stay. Raises `UserError`."""
    try:
        for setting, value in settings.items():
            text = _with_setting(text, setting, value)
    except (TOMLKitError, tomllib.TOMLDecodeError, TypeError) as error:
        raise UserError(f"the settings cannot be changed ({error}): set them by hand") from None
    return text


def _with_setting(text: str, setting: Setting, value: str) -> str:
    (table, key), before = setting, tomllib.loads(text)
    wanted: dict[str, Any] = deepcopy(before)
    (wanted.setdefault(table, {}) if table else wanted)[key] = value
    # Where it is commented out, or below the heading of its table: people look there.
    for candidate in _lines_with(text, key, value):
        if _parsed(candidate) == wanted:
            return candidate
    document = tomlkit.parse(text)
    if table:
        document.setdefault(table, tomlkit.table())
    (document[table] if table else document)[key] = value
    changed = tomlkit.dumps(document)
    if _parsed(changed) != wanted:
        raise TypeError(f"{key} has no place")
    return changed


def _lines_with(text: str, key: str, value: str) -> Iterator[str]:
    """The text with a setting in each of its lines: first where it is a comment, then in between."""
    lines, line = text.splitlines(), f"{key} = {tomlkit.string(value).as_string()}"
    for number, each in enumerate(lines):
        if (found := _COMMENTED.match(each)) and found["key"] == key:
            yield "\n".join([*lines[:number], line, *lines[number + 1 :], ""])
    for number in range(len(lines) + 1):
        yield "\n".join([*lines[:number], line, *lines[number:], ""])


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None

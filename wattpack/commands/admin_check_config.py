"""`wattpack admin check-config`: check a configuration file, and show what differs from the defaults."""

import argparse
import asyncio
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from agent.config import AgentConfig
from agent.delivery.connection import read_token, tls_context
from agent.features import settings_class
from agent.sampling.sampler import Sampler
from collector.config import CollectorConfig
from collector.decide.question import check_policies
from collector.main import check_start
from wattpack.config.arguments import add
from wattpack.config.loader import Sources, keys, load
from wattpack.config.options import WEB_CONFIG, from_credentials
from wattpack.output.text import print_result
from wire.http.webconfig import check_web_config

_ROLES: dict[str, type[AgentConfig | CollectorConfig]] = {
    "agent": settings_class(),
    "collector": CollectorConfig,
}
_CHECKS: dict[str, Callable[[Any], None]] = {"collector": check_policies}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "|".join(_ROLES), "the role that the file configures", dest="role")
    add(parser, "FILE", "the TOML file to check", Path)
    add(parser, "--json", "print the resulting configuration as JSON")


def run(arguments: argparse.Namespace) -> int:
    role: str = arguments.role
    config = _ROLES[role]
    base = from_credentials(config, os.environ)
    sources = Sources(base=base, file=arguments.file, environment=os.environ)
    loaded = load(config, role, sources, _CHECKS.get(role))
    for key in keys(config):
        if key.path == WEB_CONFIG and (file := _value(loaded, key.path)):
            check_web_config(Path(str(file)))
    _check_start(loaded)
    return print_result(arguments, loaded, _lines(arguments, config, loaded))


def _lines(arguments: argparse.Namespace, config: type[msgspec.Struct], loaded: object) -> Iterator[str]:
    yield f"{arguments.file} is a valid {arguments.role} configuration."
    changed = [key for key in keys(config) if _value(loaded, key.path) != key.default]
    for key in changed:
        value, default = (msgspec.to_builtins(each) for each in (_value(loaded, key.path), key.default))
        # Users name the tables in a dictionary, such as `[elastic.web]`.
        note = "" if isinstance(value, dict) else f"  (default {_toml(default)})"
        yield from (f"  {dotted} = {_toml(each)}{note}" for dotted, each in _flat(key.dotted, value))
    if not changed:
        yield "  All keys have their defaults."


def _check_start(loaded: object) -> None:
    """Check what the role checks at startup: tokens, certificates, the cgroup, the driver."""
    if isinstance(loaded, AgentConfig):
        if loaded.collector.enabled:
            read_token(loaded.collector)
            tls_context(loaded.collector)
        Sampler(loaded)
    elif isinstance(loaded, CollectorConfig):
        asyncio.run(check_start(loaded))


def _flat(dotted: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flat(f"{dotted}.{name}", inner)
    elif value is not None:
        yield dotted, value


def _toml(value: object) -> str:
    """A value as a file has it."""
    return "none" if value is None else json.dumps(value, ensure_ascii=False)


def _value(config: object, path: tuple[str, ...]) -> object:
    for part in path:
        config = getattr(config, part)
    return config

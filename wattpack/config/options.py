"""Command-line options for the configuration, the same for every role."""

import argparse
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from wattpack.config.arguments import add
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

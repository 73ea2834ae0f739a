"""How a configuration is given on the command line, the same for every role."""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from wattpack.config.loader import Config, Given, keys, load

ETC = Path("/etc/wattpack")
WEB_CONFIG = ("http", "web_config")
"""The key for a web configuration, where a role has one."""
CREDENTIALS = {
    WEB_CONFIG: "web.yml",
    ("collector", "token_file"): "token",
    ("tls", "certificate"): "tls.crt",
    ("tls", "key"): "tls.key",
    ("tls", "client_ca"): "client-ca.crt",
}
"""What a credential is called that stands in for the default of a key."""


def add_config_options(parser: argparse.ArgumentParser, role: str) -> None:
    """`--config` and `--set`."""
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help=f"configuration file (default: {ETC / role}.toml where there is one)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override one key of the configuration; may be given several times",
    )


def load_config(config: type[Config], role: str, arguments: argparse.Namespace) -> Config:
    """The configuration that the user meant: defaults, file, environment, `--set`."""
    default = ETC / f"{role}.toml"
    file = arguments.config or (default if default.is_file() else None)
    return load(
        config,
        role,
        Given(
            base=from_credentials(config, os.environ),
            file=file,
            environment=os.environ,
            assignments=arguments.set,
        ),
    )


def from_credentials(config: type[msgspec.Struct], environment: Mapping[str, str]) -> dict[str, Any]:
    """Give the defaults that credentials stand for: what systemd handed over under a known name is used."""
    folder = environment.get("CREDENTIALS_DIRECTORY")
    base: dict[str, Any] = {}
    for key in keys(config):
        if folder and key.path in CREDENTIALS and (file := Path(folder, CREDENTIALS[key.path])).exists():
            table, name = key.path
            base.setdefault(table, {})[name] = str(file)
    return base


def config_class(role: str) -> type[msgspec.Struct]:
    """The settings of a role, imported only now: a role's code has no business in the other's process."""
    if role == "agent":
        from agent.config import AgentConfig  # noqa: PLC0415 - see above

        return AgentConfig
    from collector.config import CollectorConfig  # noqa: PLC0415 - see above

    return CollectorConfig


ROLES = ("agent", "collector")

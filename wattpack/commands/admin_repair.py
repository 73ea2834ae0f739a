"""`wattpack admin repair`: check the collector's history for damage, and repair it."""

import argparse
from math import inf
from pathlib import Path

from collector.config import CollectorConfig
from collector.history.sqlite.files.connection import examine, lock_file, repair_file
from wattpack.config.arguments import add
from wattpack.config.options import add_config_options, load_config
from wire.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "--file FILE", "history (default: the setting history.path)", Path)
    add(parser, "--check", "only check; exit with 1 if it is damaged")
    add_config_options(parser, "collector")


def run(arguments: argparse.Namespace) -> int:
    path = str(arguments.file or load_config(CollectorConfig, "collector", arguments).history.path)
    if not Path(path).is_file():
        raise UserError(f"there is no history at {path}: give its path with --file")
    with lock_file(path):
        damage = examine(path, inf)
        if damage is None:
            print(f"{path} has no damage")
            return 0
        print(f"{path} is damaged: {damage}")
        if arguments.check:
            return 1
        repair_file(path).close()
        print(f"repaired {path}")
    return 0

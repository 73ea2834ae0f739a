"""`wattpack admin repair`: check the collector's history for damage, and repair it."""

import argparse
import sqlite3
from contextlib import closing
from math import inf
from pathlib import Path

from collector.config import CollectorConfig
from collector.history.sqlite.files.connection import lock_file, open_existing, repair_file
from collector.history.sqlite.files.damage import count_wrong_rows, find_damage, set_wrong_rows_aside
from wattpack.config.arguments import add
from wattpack.config.options import add_config_options, load_config
from wattpack.output.text import count_text
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
        damage, wrong = _examine(path)
        if damage is None and not wrong:
            print(f"{path} has no damage")
            return 0
        if damage is not None:
            print(f"{path} is damaged: {damage}")
        for table, count in wrong.items():
            print(f"{path}: {count_text(count, 'row')} of {table} with a wrong checksum")
        if arguments.check:
            return 1
        connection = repair_file(path) if damage is not None else open_existing(path)
        with closing(connection):
            set_aside = set_wrong_rows_aside(connection)
        print(f"repaired {path}; set {count_text(set_aside, 'row')} aside")
    return 0


def _examine(path: str) -> tuple[str | None, dict[str, int]]:
    try:
        with closing(open_existing(path)) as connection:
            damage = find_damage(connection, inf)
            return (None, count_wrong_rows(connection)) if damage is None else (damage, {})
    except sqlite3.DatabaseError as error:
        return str(error), {}

"""The option that every command with data sets has."""

import argparse
from pathlib import Path

from wattpack.datasets.search import VARIABLE


def add_data_option(parser: argparse.ArgumentParser) -> None:
    """`--data DIR`."""
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help=f"a folder with data sets; searched after it: {VARIABLE}, ./data, ../shared/data",
    )

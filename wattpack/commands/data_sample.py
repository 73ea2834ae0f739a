"""`wattpack data sample`: a small generated sample of each data set."""

import argparse
from pathlib import Path

from wattpack.datasets.sample import write_sample


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help="an empty or new folder")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="random seed (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    written = write_sample(arguments.folder, arguments.seed)
    print(f"wrote a sample of {len(written)} data sets; use it with --data {arguments.folder}")
    return 0

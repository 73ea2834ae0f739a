"""`wattpack data sample`: a small generated sample of each data set."""

import argparse
from pathlib import Path

from wattpack.config.arguments import add
from wattpack.datasets.sample import write_sample


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "DIR", "an empty or new folder", Path, dest="folder")
    add(parser, "--seed N", "random seed", int, default=0)


def run(arguments: argparse.Namespace) -> int:
    written = write_sample(arguments.folder, arguments.seed)
    print(f"wrote a sample of {len(written)} data sets; use it with --data {arguments.folder}")
    return 0

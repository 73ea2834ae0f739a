"""`wattpack version`: print the version."""

import argparse
import json
import platform

from wire.version import __version__


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print as JSON")


def run(arguments: argparse.Namespace) -> int:
    if arguments.json:
        print(json.dumps({"wattpack": __version__, "python": platform.python_version()}))
    else:
        print(f"wattpack {__version__} (Python {platform.python_version()})")
    return 0

"""`wattpack resume`: resume the control loop after a pause."""

import argparse

from wattpack.client.control import add_collector_option, ask, status_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_collector_option(parser)


def run(arguments: argparse.Namespace) -> int:
    print(status_text(ask(arguments.collector, "POST", "/v1/resume", {})))
    return 0

"""`wattpack resume`: resume the control loop after a pause."""

import argparse

from wattpack.client.collector import add_collector_options, query_collector
from wattpack.client.control import status_text
from wattpack.output.text import json_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_collector_options(parser)


def run(arguments: argparse.Namespace) -> int:
    status = query_collector(arguments, lambda collector: collector.post("/v1/resume", {}))
    print(json_text(status) if arguments.json else status_text(status))
    return 0

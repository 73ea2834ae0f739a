"""`wattpack control resume`: resume the control loop after a pause."""

import argparse

from wattpack.client.collector import add_collector_options, post
from wattpack.commands.control_pause import status_text
from wattpack.output.text import print_result

add_arguments = add_collector_options


def run(arguments: argparse.Namespace) -> int:
    status = post(arguments, "/v1/control", {"paused": False})
    return print_result(arguments, status, [status_text(status)])

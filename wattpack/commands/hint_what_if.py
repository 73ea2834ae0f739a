"""`wattpack hint what-if`: the power of more or less load of a service on each node."""

import argparse
from collections.abc import Iterator

from wattpack.client.collector import Json, add_list_options, more_lines, post
from wattpack.config.arguments import add, at_least_zero
from wattpack.output.text import Columns, at, bytes_text, columns_table, number_text, print_result

_COLUMNS: Columns = {
    "NODE": at("node"),
    "NOW": at("before_watts", "{:.1f} W".format),
    "THEN": at("after_watts", "{:.1f} W".format),
    "CHANGE": lambda each: f"{each['added_watts']:+.1f} W ±{each['error_watts']:.1f}",
    "SOURCE": at("source"),
    "NOTE": lambda each: f"not enough {' and '.join(each['exceeded'])}" if each["exceeded"] else "-",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "SERVICE", "a service with running containers")
    amount = parser.add_mutually_exclusive_group(required=True)
    add(amount, "--times N", "throughput relative to now; the node takes the difference", at_least_zero)
    add(amount, "--share RATIO", "share of the present throughput that the node takes in addition", float)
    add(parser, "--on NODE", "only this node (default: each node in turn)")
    overhead = "CPU time that virtualization adds, as a share: 0.1 for a tenth more"
    add(parser, "--virtualization RATIO", overhead, at_least_zero, default=0.0)
    add_list_options(parser)


def run(arguments: argparse.Namespace) -> int:
    request = {
        "service": arguments.service,
        "times": arguments.times,
        "share": arguments.share,
        "node": arguments.on,
        "virtualization_ratio": arguments.virtualization,
    }
    found = post(arguments, "/v1/what-if", request, Json)
    return print_result(arguments, found, _lines(arguments, found))


def _lines(arguments: argparse.Namespace, found: Json) -> Iterator[str]:
    if shown := found["estimates"][: arguments.limit]:
        yield from columns_table(_COLUMNS, shown)
        yield from more_lines(found["estimates"], shown)
    for each in found["unknown"]:
        yield f"{each['node']}: no estimate: {each['reason']}"
    used, weight = found["load"], found["power_weight"]
    yield (
        f"{arguments.service} uses {number_text(used.get('cpu_cores'))} cores and"
        f" {bytes_text(used.get('memory_bytes'))} now; each core takes {weight:.1f} times the average power."
    )
    yield "Watts are of the whole machine at the wall."

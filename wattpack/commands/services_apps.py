"""`wattpack services apps`: a table of applications."""

import argparse

from wattpack.client.collector import Json, get_all
from wattpack.client.listing import Columns, add_list_options, print_list
from wattpack.output.text import milliseconds_text

_HEADER = ("APPLICATION", "SERVICES", "CONTAINERS", "NODES", "BOUND", "FARTHEST", "BETWEEN", "WITHIN BOUND")
_EMPTY = (
    "No applications. They come from Swarm stacks, Compose projects, Kubernetes namespaces and the label"
    " wattpack.app."
)

add_arguments = add_list_options


def run(arguments: argparse.Namespace) -> int:
    return print_list(arguments, get_all(arguments, "/v1/applications"), Columns(_HEADER, _row), _EMPTY)


def _row(application: Json) -> tuple[str, ...]:
    farthest = application["farthest"]
    return (
        application["name"],
        str(len(application["services"])),
        str(sum(application["nodes"].values())),
        str(len(application["nodes"])),
        milliseconds_text(application["delay_max_seconds"]),
        milliseconds_text(None if farthest is None else farthest["seconds"]),
        "-" if farthest is None else " and ".join(farthest["nodes"]),
        {True: "yes", False: "no", None: "-"}[application["within_bound"]],
    )

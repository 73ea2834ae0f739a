"""`wattpack containers`: the containers that a collector knows, as a table."""

import argparse

from wattpack.client.collector import Json, add_collector_options, from_collector, json_text, number_text
from wattpack.output.report import bytes_text, table

_HEADER = ("CONTAINER", "NODE", "SERVICE", "WATTS", "CPU cores", "NEED", "MEMORY", "NEED", "CLASS")
_SORTS = {
    "watts": lambda each: -(each["power"] or {}).get("watts", 0.0),
    "cpu": lambda each: -each["used"].get("cpu_cores", 0.0),
    "memory": lambda each: -each["used"].get("memory_bytes", 0),
    "name": lambda each: each["name"],
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--node", metavar="NAME", help="only those on this node")
    parser.add_argument("--name", help="only those of this name")
    parser.add_argument("--service", metavar="NAME", help="only those of this service")
    parser.add_argument("--label", metavar="KEY[=VALUE]", help="only those with this label")
    parser.add_argument("--class", dest="group", metavar="NAME", help="only those of this class, such as cpu")
    parser.add_argument("--sort", choices=tuple(_SORTS), default="watts", help="(default: %(default)s)")
    parser.add_argument("--most", type=int, metavar="N", help="show no more than so many")
    add_collector_options(parser)


def run(arguments: argparse.Namespace) -> int:
    found = from_collector(
        arguments,
        lambda collector: collector.ask_all(
            "/v1/containers",
            node=arguments.node,
            name=arguments.name,
            service=arguments.service,
            label=arguments.label,
            group=arguments.group,
        ),
    )
    found.sort(key=_SORTS[arguments.sort])
    shown = found[: arguments.most]
    if arguments.json:
        print(json_text(shown))
    elif shown:
        print("\n".join(table(_HEADER, [_row(each) for each in shown])))
        if len(shown) < len(found):
            print(f"... and {len(found) - len(shown)} more")
    else:
        print("No such container runs: wattpack nodes says which nodes are heard of.")
    return 0


def _row(container: Json) -> tuple[str, ...]:
    used, need, power = container["used"], container["envelope"], container["power"]
    state = container["node_state"]
    return (
        container["name"],
        container["node"] if state == "up" else f"{container['node']} ({state})",
        container["service"] or "-",
        number_text(None if power is None else power["watts"]),
        number_text(used.get("cpu_cores"), digits=3),
        number_text(need.get("cpu_cores"), digits=3),
        bytes_text(used.get("memory_bytes")),
        bytes_text(need.get("memory_bytes")),
        container["group"] or "-",
    )

"""`wattpack top`: hosts and containers, live."""

import argparse
import asyncio
import logging
import shutil
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from wattpack.config.options import add_config_options, load_config
from wattpack.top.scene import Scene
from wattpack.top.screen import draw_all
from wattpack.top.view import SORTS, View
from wire.address import COLLECTOR_DEFAULT
from wire.errors import UserError

_SHORTEST_INTERVAL_SECONDS = 0.2
_WIDTH_OF_A_PIPE = 120


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--collector",
        metavar="URL",
        help=f"show all nodes that a collector knows, such as http://{COLLECTOR_DEFAULT};"
        " without it, this host is looked at directly",
    )
    parser.add_argument(
        "--interval", type=float, default=2.0, metavar="SECONDS", help="time between two looks (default: 2)"
    )
    parser.add_argument(
        "--sort",
        choices=SORTS.values(),
        default=View().sort,
        help="what to sort by at first (default: watts)",
    )
    parser.add_argument("--once", action="store_true", help="print one look at everything, and end")
    parser.add_argument("--json", action="store_true", help="print one look at everything as JSON, and end")
    add_config_options(parser, "agent")


def run(arguments: argparse.Namespace) -> int:
    if arguments.interval < _SHORTEST_INTERVAL_SECONDS:
        raise UserError(f"--interval {arguments.interval:g}: at least {_SHORTEST_INTERVAL_SECONDS:g} seconds")
    # What cannot be seen is shown as gaps; a message across the screen would say it worse.
    logging.getLogger().addHandler(logging.NullHandler())
    asyncio.run(_top(arguments))
    return 0


async def _top(arguments: argparse.Namespace) -> None:
    view = View(sort=arguments.sort)
    async with aclosing(_scenes(arguments)) as scenes:
        if arguments.json:
            scene = await anext(scenes)
            print(msgspec.json.format(msgspec.json.encode(scene)).decode())
        elif arguments.once or not (sys.stdin.isatty() and sys.stdout.isatty()):
            width = shutil.get_terminal_size((_WIDTH_OF_A_PIPE, 0)).columns
            print(draw_all(await anext(scenes), view, width))
        else:
            from wattpack.top.terminal import show  # noqa: PLC0415 - some systems come without curses

            await show(scenes, view)


def _scenes(arguments: argparse.Namespace) -> AsyncGenerator[Scene, None]:
    url: str | None = arguments.collector
    if url is None:
        from agent.config import AgentConfig  # noqa: PLC0415 - a look at a collector needs no agent
        from wattpack.top.here import scenes_here  # noqa: PLC0415 - the same

        return scenes_here(load_config(AgentConfig, "agent", arguments), arguments.interval)
    if not url.startswith(("http://", "https://")):
        raise UserError(f"--collector {url}: write an address such as http://{COLLECTOR_DEFAULT}")
    from wattpack.top.there import scenes_there  # noqa: PLC0415 - a look at this host needs no HTTP

    return scenes_there(url, arguments.interval)

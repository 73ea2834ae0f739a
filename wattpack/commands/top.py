"""`wattpack top`: nodes and containers, live."""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing

from wattpack.client.collector import URL_VARIABLE, access_environment, add_access_options, collector_url
from wattpack.config.arguments import add
from wattpack.config.options import add_config_options, load_config
from wattpack.output.text import json_text
from wattpack.top.scene import Scene, remote_scenes
from wattpack.top.screen import draw_all
from wattpack.top.view import SORTS, View
from wire.address import COLLECTOR_DEFAULT
from wire.errors import UserError

_MIN_INTERVAL_SECONDS = 0.2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_access_options(
        parser,
        f"show all nodes of this collector, such as http://{COLLECTOR_DEFAULT} (default: {URL_VARIABLE}, or"
        " this host without a collector)",
    )
    add(parser, "--interval SECONDS", "time between updates", float, default=2.0)
    add(parser, f"--sort {'|'.join(SORTS.values())}", "initial sort order", default=View().sort)
    add(parser, "--once", "print everything once, and exit")
    add(parser, "--json", "print everything once as JSON, and exit")
    add_config_options(parser, "agent")


def run(arguments: argparse.Namespace) -> int:
    if arguments.interval < _MIN_INTERVAL_SECONDS:
        raise UserError(f"--interval {arguments.interval:g}: use at least {_MIN_INTERVAL_SECONDS:g} seconds")
    # Log messages would corrupt the screen; gaps are shown on it.
    logging.getLogger().addHandler(logging.NullHandler())
    asyncio.run(_top(arguments))
    return 0


async def _top(arguments: argparse.Namespace) -> None:
    view = View(sort=arguments.sort)
    async with aclosing(_scenes(arguments)) as scenes:
        if arguments.json:
            scene = await anext(scenes)
            print(json_text(scene))
        elif arguments.once or not (sys.stdin.isatty() and sys.stdout.isatty()):
            print(draw_all(await anext(scenes), view))
        else:
            from wattpack.top.terminal import show  # noqa: PLC0415 - some systems come without curses

            await show(scenes, view)


def _scenes(arguments: argparse.Namespace) -> AsyncGenerator[Scene, None]:
    if not arguments.collector and not os.environ.get(URL_VARIABLE):
        from agent.features import settings_class  # noqa: PLC0415 - not needed with a collector
        from wattpack.top.local import local_scenes  # noqa: PLC0415 - the same

        return local_scenes(load_config(settings_class(), "agent", arguments), arguments.interval)
    url = collector_url(arguments.collector)
    return remote_scenes(url, arguments.interval, access_environment(arguments))

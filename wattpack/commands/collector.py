"""`wattpack collector`: the collector as a service."""

import argparse
import logging

from collector.config import CollectorConfig
from collector.main import running
from wattpack.options import add_config_options, load_config
from wattpack.service import run as run_service
from wattpack.service import start_logging, until_stopped

log = logging.getLogger("wattpack.collector")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser, "collector")


def run(arguments: argparse.Namespace) -> int:
    config = load_config(CollectorConfig, "collector", arguments)
    start_logging("collector")
    return run_service(_serve(config))


async def _serve(config: CollectorConfig) -> None:
    async with running(config) as collector:
        log.info("answering at %s", collector.address.url)
        await until_stopped()

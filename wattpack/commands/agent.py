"""`wattpack agent`: the agent as a service, or one sample of it."""

import argparse
import asyncio
import logging

import msgspec

from agent.config import AgentConfig
from agent.main import once, running
from wattpack.options import add_config_options, load_config
from wattpack.service import run as run_service
from wattpack.service import start_logging, until_stopped
from wattpack.show import show_report

log = logging.getLogger("wattpack.agent")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser, "agent")
    parser.add_argument("--once", action="store_true", help="take one full sample, print it, and end")
    parser.add_argument("--json", action="store_true", help="with --once: print the sample as JSON")


def run(arguments: argparse.Namespace) -> int:
    config = load_config(AgentConfig, "agent", arguments)
    if arguments.once:
        logging.getLogger().addHandler(logging.NullHandler())  # gaps are part of the sample
        report = asyncio.run(once(config))
        print(
            msgspec.json.format(msgspec.json.encode(report)).decode()
            if arguments.json
            else show_report(report)
        )
        return 0
    start_logging("agent")
    return run_service(_serve(config))


async def _serve(config: AgentConfig) -> None:
    async with running(config) as agent:
        for line in agent.survey.found:
            log.info("found %s", line)
        for gap in agent.survey.missing:
            log.info("missing %s: %s", gap.what, gap.why)
        log.info("node %s, metrics at %s/metrics", agent.survey.node, agent.address.url)
        await until_stopped(agent.work)

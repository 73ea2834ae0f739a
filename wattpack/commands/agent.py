"""`wattpack agent`: run the agent as a service, or take one sample."""

import argparse
import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from agent.config import AgentConfig
from agent.features import settings_class
from agent.main import RunningAgent, running, sample_once
from agent.sampling.node_sample import NodeSample
from wattpack.config.arguments import add
from wattpack.config.options import add_config_options, load_config
from wattpack.output.text import count_text, print_result
from wattpack.service.runner import Watchdog, Work, keep_running, start_logging
from wattpack.service.runner import run as run_service
from wattpack.top.scene import scene_of
from wattpack.top.screen import draw_all
from wattpack.top.view import View

log = logging.getLogger("wattpack.agent")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser, "agent")
    add(parser, "--once", "take one full sample, print it, and exit")
    add(parser, "--json", "with --once: print the sample as JSON")


def run(arguments: argparse.Namespace) -> int:
    load = partial(load_config, settings_class(), "agent", arguments)
    if arguments.once:
        logging.getLogger().addHandler(logging.NullHandler())  # gaps are part of the sample
        report = asyncio.run(sample_once(load()))
        return print_result(arguments, report, [draw_all(scene_of(report), View())])
    start_logging("agent")
    return run_service(keep_running(load, _running))


@asynccontextmanager
async def _running(config: AgentConfig) -> AsyncIterator[Work]:
    watchdog = Watchdog(config.sampling.interval_seconds)
    started: RunningAgent | None = None

    def alive() -> None:
        # Rates need two readings, so there is no sample after the first one.
        if started is not None and started.state.sample is not None:
            watchdog.progress(status(started.state.sample))

    async with running(config, alive) as agent:
        started = agent
        for line in agent.survey.found:
            log.info("found %s", line)
        for gap in agent.survey.missing:
            log.info("missing %s: %s", gap.what, gap.why)
        log.info("node %s, metrics at %s/metrics", agent.node, agent.address.url)
        yield agent.work


def status(sample: NodeSample) -> str:
    """One line for `systemctl status`."""
    watts = f"{sample.power.watts:.1f} W by {sample.power.source}" if sample.power else "power unknown"
    return f"sampling {count_text(len(sample.containers), 'container')}, {watts}"

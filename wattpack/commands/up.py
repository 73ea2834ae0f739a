"""`wattpack up`: a collector and an agent for this host in one process, with a live table."""

import argparse
import asyncio
import logging
import math
import os
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from agent.config import AgentConfig
from agent.features import settings_class
from agent.main import RunningAgent, full_report
from agent.main import running as running_agent
from collector.config import CollectorConfig
from collector.decide.question import check_policies
from collector.main import running as running_collector
from wattpack.config.arguments import add
from wattpack.config.loader import Sources, load
from wattpack.service.runner import run as run_service
from wattpack.service.runner import start_logging, until_stopped
from wattpack.top.scene import scene_of
from wattpack.top.screen import draw_all
from wattpack.top.view import View
from wire.address import Address, parse_address
from wire.errors import UserError
from wire.http.serving import check_address
from wire.version import __version__

_HEARTBEAT_SECONDS, _ROLLUP_SECONDS = 10.0, 5.0
"""One host sends little: `wattpack energy` has data within half a minute."""
_CLEAR_BELOW = "\x1b[J"
_WIDTHS = {"W": 2, "F": 2}
"""Cells of wide characters on a terminal."""
_JOINED = frozenset({"Mn", "Me", "Cf"})
"""Categories of characters that join the one before them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "--data DIR", "directory for the collector's history", Path, default=_state_folder())
    add(parser, "--set ROLE.KEY=VALUE...", "override a setting, such as agent.sampling.interval_seconds=1")


def run(arguments: argparse.Namespace) -> int:
    start_logging("wattpack")
    return run_service(_up(arguments.data, arguments.set))


def _state_folder() -> Path:
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "wattpack"


async def _up(data: Path, assignments: list[str]) -> None:
    settings = _by_role(assignments)
    collector_config = load(
        CollectorConfig,
        "collector",
        Sources(
            # One process on loopback needs no tokens.
            base={
                "history": {"path": str(data / "collector.db"), "rollup_seconds": _ROLLUP_SECONDS},
                "access": {"tokens": ""},
            },
            environment=os.environ,
            assignments=settings["collector"],
        ),
        check_policies,
    )
    files = {
        "storage": {"directory": str(data)},
        "reporting": {"heartbeat_seconds": _HEARTBEAT_SECONDS},
    }

    def agent_settings(url: str) -> AgentConfig:
        sources = Sources(
            base={"collector": {"url": url}, **files}, environment=os.environ, assignments=settings["agent"]
        )
        return load(settings_class(), "agent", sources)

    # Before the collector creates its history.
    agent_listen = agent_settings("http://127.0.0.1").http.listen
    await check_address(parse_address(agent_listen), "agent.http.listen")
    async with running_collector(collector_config) as collector:
        agent_config = agent_settings(collector.address.url)
        async with running_agent(agent_config) as agent:
            print("\n".join(_welcome(agent, collector.address)), flush=True)
            showing = asyncio.create_task(_show(agent, agent_config.sampling.interval_seconds))
            try:
                await until_stopped(agent.work)
            finally:
                showing.cancel()
                print("\nstopping", flush=True)


def _by_role(assignments: list[str]) -> dict[str, list[str]]:
    settings: dict[str, list[str]] = {"agent": [], "collector": []}
    for assignment in assignments:
        role, _, rest = assignment.partition(".")
        if role not in settings:
            raise UserError(f"--set {assignment}: start with agent. or collector., such as agent.node=web1")
        settings[role].append(rest)
    return settings


def _welcome(agent: RunningAgent, collector: Address) -> Iterator[str]:
    yield f"Wattpack {__version__} on {agent.node}"
    yield ""
    for title, lines in (
        ("found", agent.survey.found),
        ("missing", tuple(f"{gap.what}: {gap.why}" for gap in agent.survey.missing)),
    ):
        for index, line in enumerate(lines):
            yield f"  {title if index == 0 else '':9} {line}"
    yield ""
    yield f"  collector {collector.url} (open it in a browser; /v1/nodes, /v1/containers, /openapi.json)"
    yield f"  agent     {agent.address.url}/metrics"
    yield "  Press Ctrl-C to stop both."
    yield ""


async def _show(agent: RunningAgent, period_seconds: float) -> None:
    """Show the last sample: redrawn after each sample in a terminal, else printed once."""
    live = LiveText(sys.stdout, shutil.get_terminal_size)
    if sys.stdout.isatty() and sys.stderr.isatty():
        root = logging.getLogger()
        root.handlers = [LinesAbove(each, live) for each in root.handlers]
    while True:
        await asyncio.sleep(period_seconds)
        sample = agent.state.sample
        if sample is None:
            continue
        scene = scene_of(full_report(agent.node, sample))
        if not sys.stdout.isatty():
            print(draw_all(scene, View()), flush=True)
            return
        live.show(draw_all(scene, View(), shutil.get_terminal_size()))


# --- Text at the bottom of a terminal, redrawn in place, with log lines above it ----------------


def rows_of(text: str, columns: int) -> int:
    """The rows of a terminal that `text` takes, with lines that wrap."""
    return sum(max(1, math.ceil(_cells(line) / max(1, columns))) for line in text.split("\n"))


def _cells(line: str) -> int:
    letters = (each for each in line if unicodedata.category(each) not in _JOINED)
    return sum(_WIDTHS.get(unicodedata.east_asian_width(each), 1) for each in letters)


class LiveText:
    """The last text on a terminal; each new text replaces it."""

    def __init__(self, terminal: TextIO, size: Callable[[], os.terminal_size]) -> None:
        self._terminal, self._size = terminal, size
        self._text = ""
        self._rows = 0

    def show(self, text: str) -> None:
        """Draw in place of the last text."""
        self.clear()
        self._terminal.write(f"{text}\n")
        self._terminal.flush()
        self._text, self._rows = text, rows_of(text, self._size().columns)

    def clear(self) -> None:
        """Remove the last text, so that other lines can take its place."""
        if self._rows:
            self._terminal.write(f"\x1b[{self._rows}F{_CLEAR_BELOW}")
            self._terminal.flush()
        self._rows = 0

    def restore(self) -> None:
        """Draw the last text again after `clear`."""
        if self._text:
            self.show(self._text)


class LinesAbove(logging.Handler):
    """Passes records to another handler, which writes to the same terminal, above the text."""

    def __init__(self, handler: logging.Handler, text: LiveText) -> None:
        super().__init__(handler.level)
        self._handler, self._text = handler, text

    def emit(self, record: logging.LogRecord) -> None:
        self._text.clear()
        self._handler.handle(record)
        self._text.restore()

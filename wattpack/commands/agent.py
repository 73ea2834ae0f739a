"""`wattpack agent`: run the agent as a service, take one sample, or join a collector with a join token."""

import argparse
import asyncio
import logging
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import aiohttp
import msgspec

from agent.config import AgentConfig
from agent.features import settings_class
from agent.main import RunningAgent, node_name, running, sample_once
from agent.sampling.node_sample import NodeSample
from agent.sources.host import read_machine
from wattpack.client.collector import (
    CA_VARIABLE,
    JOIN_PATH,
    TOKEN_VARIABLE,
    Collector,
    UnavailableError,
    collector_url,
    open_session,
)
from wattpack.commands import Functions
from wattpack.config.arguments import add
from wattpack.config.options import ETC, add_config_options, load_config
from wattpack.output.text import count_text, print_result, writing
from wattpack.service.runner import Watchdog, Work, keep_running, start_logging
from wattpack.service.runner import run as run_service
from wattpack.top.scene import scene_of
from wattpack.top.screen import draw_all
from wattpack.top.view import View
from wire.errors import UserError

log = logging.getLogger("wattpack.agent")
_TIMEOUT = aiohttp.ClientTimeout(total=30)
_TOKEN_FILE = "/var/lib/wattpack-agent/token"  # noqa: S105 - a path
_PRIVATE = 0o600
_TABLE = re.compile(r"^\s*\[")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser, "agent")
    add(parser, "--once", "take one full sample, print it, and exit")
    add(parser, "--json", "with --once: print the sample as JSON")


def _run(arguments: argparse.Namespace) -> int:
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


# --- Joining a collector: a join token for the token of this node -------------------------------


class _Joined(msgspec.Struct):
    node: str
    token: str


def _add_join_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "URL", "address of the collector, such as https://collector:8640")
    add(parser, "TOKEN", "join token from 'wattpack token add join'; - reads it from the input")
    add(parser, "--node NODE", "name of this node (default: as in the agent's settings, else the host name)")
    add(parser, "--ca-file FILE", "CA certificate of the collector")
    add(parser, "--token-file FILE", f"where to store the node's token (default: {_TOKEN_FILE})")
    add_config_options(parser, "agent")


def _run_join(arguments: argparse.Namespace) -> int:
    config = load_config(settings_class(), "agent", arguments)
    node = arguments.node or node_name(config)
    machine = read_machine(str(config.host.sys))
    if machine is None:
        raise UserError("this machine has no id: run systemd-machine-id-setup, or create a token by hand")
    secret = sys.stdin.readline().strip() if arguments.token == "-" else arguments.token  # noqa: S105 - no password
    ca_file = arguments.ca_file or config.collector.ca_file
    joined = asyncio.run(_join(collector_url(arguments.url), secret, ca_file, node, machine))
    token_file = Path(arguments.token_file or config.collector.token_file or _TOKEN_FILE)
    with writing(token_file, "run this as root"):
        _write_private(token_file, joined.token + "\n")
    settings = {"url": arguments.url, "token_file": str(token_file)} | (
        {"ca_file": ca_file} if ca_file else {}
    )
    file = arguments.config or ETC / "agent.toml"
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    text = with_settings(text, "collector", settings)
    if arguments.node:
        text = with_settings(text, "", {"node": arguments.node})
    with writing(file, "run this as root"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    print(f"{joined.node} has joined {arguments.url}: its token is in {token_file}, the settings in {file}.")
    print("Apply them with: systemctl restart wattpack-agent")
    return 0


async def _join(url: str, secret: str, ca_file: str, node: str, machine: str) -> _Joined:
    environment = {TOKEN_VARIABLE: secret, CA_VARIABLE: ca_file}
    async with open_session(_TIMEOUT, environment) as session:
        try:
            return await Collector(session, url).post(JOIN_PATH, {"node": node, "machine": machine}, _Joined)
        except UnavailableError as error:
            raise UserError(f"the collector at {url} {error}: check the URL") from None


def with_settings(text: str, table: str, settings: dict[str, str]) -> str:
    """A settings file with these keys of a table set; other lines stay, and so do comments."""
    lines = text.splitlines()
    heading = f"[{table}]"
    if table and heading not in (line.strip() for line in lines):
        lines += ["", heading]
    begin = next(number for number, line in enumerate(lines) if line.strip() == heading) + 1 if table else 0
    end = next((number for number in range(begin, len(lines)) if _TABLE.match(lines[number])), len(lines))
    for key, value in settings.items():
        setting = f"{key} = {msgspec.json.encode(value).decode()}"
        is_set = re.compile(rf"^\s*#?\s*{re.escape(key)}\s*=")
        found = [number for number in range(begin, end) if is_set.match(lines[number])]
        if found:
            lines[found[-1]] = setting
        else:
            lines.insert(begin, setting)
            end += 1
    return "\n".join(lines) + "\n"


def _write_private(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    handle = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, _PRIVATE)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        if os.geteuid() == 0:
            # The agent runs as the owner of the folder.
            folder = path.parent.stat()
            os.fchown(file.fileno(), folder.st_uid, folder.st_gid)
        file.write(text)
    new.replace(path)


FUNCTIONS = {
    "agent": Functions(_add_arguments, _run),
    "agent join": Functions(_add_join_arguments, _run_join),
}

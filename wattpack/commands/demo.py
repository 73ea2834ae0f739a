"""`wattpack demo`: a simulated cluster with a past, and a real collector with its page."""

import argparse
import logging
import signal
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

from wattpack.config.arguments import add
from wattpack.demo.run import DemoOptions, running_demo
from wattpack.output.text import progress_bar
from wattpack.service.runner import run as run_service
from wattpack.service.runner import start_logging, until_stopped
from wire.address import COLLECTOR_DEFAULT, Address
from wire.errors import UserError

_MAX_NODES, _MAX_CONTAINERS, _MAX_DAYS = 1000, 50_000, 366.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "--port N", "port on loopback; 0 is any free one", int, default=8640)
    add(parser, "--nodes N", f"up to {_MAX_NODES}", int, default=20)
    add(parser, "--containers N", f"up to {_MAX_CONTAINERS}", int, default=200)
    add(parser, "--days N", "days of history", float, default=30.0)
    add(parser, "--seed N", "the same seed makes the same cluster", int, default=7)
    add(parser, "--keep DIR", "keep the history in this empty directory (default: leave nothing)", Path)
    add(parser, "--verbose", "show the collector's log")


def run(arguments: argparse.Namespace) -> int:
    for name, low, high in (
        ("nodes", 1, _MAX_NODES),
        ("containers", 1, _MAX_CONTAINERS),
        ("days", 0, _MAX_DAYS),
        ("port", 0, 65_535),
        ("seed", 0, 2**63 - 1),
    ):
        if not low <= getattr(arguments, name) <= high:
            raise UserError(f"--{name} {getattr(arguments, name):g}: use a number from {low} to {high:g}")
    keep: Path | None = arguments.keep
    if keep is not None and keep.exists() and not (keep.is_dir() and not any(keep.iterdir())):
        raise UserError(f"--keep {keep}: name an empty directory, or one that does not exist yet")
    # Stopped while it starts, it leaves nothing either.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    start_logging("wattpack")
    if not arguments.verbose:
        logging.getLogger().setLevel(logging.WARNING)
    with _folder(keep) as folder:
        size = {name: getattr(arguments, name) for name in ("port", "seed", "nodes", "containers", "days")}
        options = DemoOptions(folder=folder, **size)
        return run_service(_demo(options, keep=keep))


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="wattpack-demo-") as folder:
            yield Path(folder)
    else:
        yield keep


async def _demo(options: DemoOptions, keep: Path | None) -> None:
    async with AsyncExitStack() as stack:
        with progress_bar(f"writing {options.days:g} days of history") as progress:
            collector = await stack.enter_async_context(running_demo(options, progress))
        welcome = "\n".join(_welcome(options, collector.address, keep))
        await until_stopped(on_ready=lambda: print(welcome, flush=True))


def _welcome(options: DemoOptions, address: Address, keep: Path | None) -> Iterator[str]:
    yield f"A simulated shop: {options.nodes} nodes, {options.containers} containers, seed {options.seed}."
    yield ""
    yield f"  page      {address.url}"
    yield f"  API       {address.url}/openapi.json"
    yield f"  metrics   {address.url}/metrics"
    yield "  commands  wattpack status, nodes, services, network, alerts, energy, plan, control history"
    if str(address) != COLLECTOR_DEFAULT:
        yield f"            (with WATTPACK_COLLECTOR={address.url})"
    yield ""
    yield f"  {'It is kept in ' + str(keep) if keep else 'Nothing is kept'}. Press Ctrl-C to stop."

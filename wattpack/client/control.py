"""How commands ask a collector about acting, and how they say what it answered."""

import argparse
import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import aiohttp

from wattpack.client.questions import about, asking
from wire.address import COLLECTOR_DEFAULT
from wire.errors import UserError

_PATIENCE = aiohttp.ClientTimeout(total=30)


def add_collector_option(parser: argparse.ArgumentParser) -> None:
    """`--collector`."""
    parser.add_argument(
        "--collector",
        default=f"http://{COLLECTOR_DEFAULT}",
        metavar="URL",
        help="the collector to ask (default: %(default)s)",
    )


def ask(url: str, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401 - JSON
    """What a collector answers; raises `UserError` where it does not."""
    return asyncio.run(_ask(url.rstrip("/"), method, path, body))


async def _ask(url: str, method: str, path: str, body: Mapping[str, Any] | None) -> Any:  # noqa: ANN401 - JSON
    try:
        async with asking(_PATIENCE) as session, session.request(method, url + path, json=body) as answer:
            status, said = answer.status, await answer.json(content_type=None)
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        why = str(error) or "it takes too long"
        raise UserError(f"no collector answers at {url} ({why}): start one, or give --collector") from error
    if status != HTTPStatus.OK:
        detail = said.get("detail", "") if isinstance(said, dict) else ""
        raise UserError(f"{url} says {status}: {detail}{about(status)}")
    return said


def moment(at: float) -> str:
    """A time, as people read it."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def told(now: Mapping[str, Any]) -> str:
    """How acting stands, in a sentence."""
    if pause := now["pause"]:
        until = "until wattpack resume" if pause["until"] is None else f"until {moment(pause['until'])} UTC"
        why = f" ({pause['why']})" if pause["why"] else ""
        return f"paused {until}{why}: nothing is begun, what is under way is brought to its end"
    if now["dry_run"]:
        return f"not paused; the driver is {now['driver']}: plans are kept on record, and nothing is done"
    if now["lease_holder"]:
        return f"not paused; another collector holds the lease: {now['lease_holder']}"
    return f"acting, by the driver {now['driver']}"

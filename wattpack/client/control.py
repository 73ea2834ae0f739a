"""Requests to the control loop of a collector, and its status as text."""

import argparse
import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import aiohttp

from wattpack.client.collector import moment
from wattpack.client.session import open_session, token_hint
from wire.address import COLLECTOR_DEFAULT
from wire.errors import UserError

_TIMEOUT_SECONDS = 30.0


def add_collector_option(parser: argparse.ArgumentParser) -> None:
    """`--collector`."""
    parser.add_argument(
        "--collector",
        default=f"http://{COLLECTOR_DEFAULT}",
        metavar="URL",
        help="address of the collector (default: %(default)s)",
    )


def ask(
    url: str,
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    *,
    timeout_seconds: float = _TIMEOUT_SECONDS,
) -> Any:  # noqa: ANN401 - JSON
    """Send a request to a collector; raises `UserError` unless it succeeds."""
    timeout = aiohttp.ClientTimeout(total=timeout_seconds)
    return asyncio.run(_ask(url.rstrip("/"), method, path, body, timeout))


async def _ask(
    url: str, method: str, path: str, body: Mapping[str, Any] | None, limit: aiohttp.ClientTimeout
) -> Any:  # noqa: ANN401 - JSON
    try:
        async with (
            open_session(limit) as session,
            session.request(method, url + path, json=body) as answer,
        ):
            status, content = answer.status, await answer.json(content_type=None)
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        reason = str(error) or "timeout"
        raise UserError(
            f"no collector answers at {url} ({reason}): start it, or give its address with --collector"
        ) from error
    if status != HTTPStatus.OK:
        detail = content.get("detail", "") if isinstance(content, dict) else ""
        raise UserError(f"the collector at {url} answers {status}: {detail}{token_hint(status)}")
    return content


def status_text(status: Mapping[str, Any]) -> str:
    """The status of the control loop in one sentence."""
    if pause := status["pause"]:
        until = "until 'wattpack resume'" if pause["until"] is None else f"until {moment(pause['until'])} UTC"
        reason = f" ({pause['why']})" if pause["why"] else ""
        return f"Paused {until}{reason}. Steps in progress finish, no new step starts."
    if status["dry_run"]:
        return f"Dry run with the driver {status['driver']}: plans are recorded, not carried out."
    if status["lease_holder"]:
        return f"Standby: the collector {status['lease_holder']} holds the lease and carries out plans."
    return f"Active: plans are carried out by the driver {status['driver']}."

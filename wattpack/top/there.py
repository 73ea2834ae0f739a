"""All hosts that a collector knows, as it tells of them."""

import asyncio
import time
from collections.abc import AsyncGenerator
from http import HTTPStatus
from typing import TypeVar

import aiohttp
import msgspec

from agent.loop import ticks
from wattpack.asking import about, asking
from wattpack.top.scene import Container, Node, Scene, Shortage
from wire.complaint import Complaint

_PATIENCE = aiohttp.ClientTimeout(total=10)
_Answer = TypeVar("_Answer")


class _Nodes(msgspec.Struct, frozen=True):
    nodes: tuple[Node, ...]


class _Containers(msgspec.Struct, frozen=True):
    containers: tuple[Container, ...]


class _Alerts(msgspec.Struct, frozen=True):
    alerts: tuple[Shortage, ...]


class _NoAnswerError(Exception):
    """The collector gave none, or one that cannot be used; the text says which."""


async def scenes_there(url: str, interval_seconds: float) -> AsyncGenerator[Scene, None]:
    """One scene per interval; when the collector falls silent, the last one again, with the reason."""
    base = url.rstrip("/")
    last: Scene | None = None
    async with asking(_PATIENCE) as session:
        async for _ in ticks(interval_seconds, time.monotonic):
            try:
                last = await _ask(session, base)
            except _NoAnswerError as error:
                if last is None:
                    raise Complaint(
                        f"the collector at {url} {error}: is it running, and is this its address?"
                    ) from None
                last = msgspec.structs.replace(last, trouble=f"the collector at {url} {error}")
            yield last


async def _ask(session: aiohttp.ClientSession, base: str) -> Scene:
    nodes, containers, alerts = await asyncio.gather(
        _get(session, f"{base}/v1/nodes", _Nodes),
        _get(session, f"{base}/v1/containers", _Containers),
        _get(session, f"{base}/v1/alerts?state=open", _Alerts),
    )
    return Scene(
        at=time.time(),
        nodes=nodes.nodes,
        containers=containers.containers,
        alerts=alerts.alerts,
    )


async def _get(session: aiohttp.ClientSession, url: str, shape: type[_Answer]) -> _Answer:
    try:
        async with session.get(url) as answer:
            body = await answer.read()
    except TimeoutError:
        raise _NoAnswerError("does not answer in time") from None
    except (aiohttp.ClientError, ValueError) as error:
        raise _NoAnswerError(f"does not answer ({error})") from None
    if answer.status != HTTPStatus.OK:
        raise _NoAnswerError(f"answers {answer.status} to {answer.url.path}{about(answer.status)}")
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.MsgspecError as error:
        raise _NoAnswerError(f"answers something else to {answer.url.path} ({error})") from None

"""The mesh of one agent: probes of its peers, exchanged with the collector for its peers and their keys."""

import asyncio
import gzip
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus

import aiohttp
import msgspec

from agent.config import DeliveryConfig
from agent.delivery.connection import REQUEST_SECONDS, connect, credentials, failure_reason, post, tls_context
from agent.delivery.responses import Backoff, parse_retry_after
from agent.features.mesh.endpoint import Endpoint, open_socket
from agent.features.mesh.peers import Peers
from agent.features.mesh.settings import MeshConfig
from wire.address import Address, parse_address
from wire.errors import INVALID_JSON, Problem, UserError
from wire.mesh import MAX_WAIT_SECONDS, MeshAssignment, MeshReport, PeerResult, parse_assignment
from wire.messages import encode

log = logging.getLogger(__name__)

_MAX_DETAIL = 300
"""Maximum length of an error of the collector in the log."""
_MIN_INTERVAL_SECONDS = 1.0
_SETTLE_SECONDS = 15.0
_SETTLING_WAIT_SECONDS = 2.0
"""While first results of new peers are expected, requests are this short, so that they are sent soon."""
_REPEAT_SECONDS = 240.0
"""A result that does not change is repeated before the collector drops it."""
_CHANGE_RATIO = 0.1
_CHANGE_SECONDS = 50e-6
_CHANGE_LOSS = 0.05


class _ExchangeError(Exception):
    """The collector returned no assignment."""

    def __init__(self, why: str, wait_seconds: float | None = None) -> None:
        super().__init__(why)
        self.wait_seconds = wait_seconds


class MeshExchange:
    """Exchanges the results of this node for its peers, in requests to the collector."""

    def __init__(  # noqa: PLR0913 - the clocks have defaults
        self,
        node: str,
        session: int,
        advertised: Address,
        settings: DeliveryConfig,
        peers: Peers,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._node = node
        self._session = session
        self._advertised = advertised
        self._settings = settings
        self._tls = tls_context(settings)
        self._peers = peers
        self.changed = asyncio.Event()
        """Set when the peers change."""
        self._monotonic = monotonic
        self._sleep = sleep
        self._version = 0
        self._sent: dict[str, tuple[float, PeerResult]] = {}
        """Per peer: the last result that the collector has, and when it was sent."""
        self._backoff = Backoff()
        self._has_failed = False

    async def run(self) -> None:
        async with connect(self._tls, MAX_WAIT_SECONDS + REQUEST_SECONDS) as http:
            while True:
                began = self._monotonic()
                try:
                    await self.exchange(http)
                except _ExchangeError as failure:
                    self._log_failure(failure)
                    await self._sleep(self._backoff.wait_seconds(failure.wait_seconds))
                else:
                    if self._has_failed:
                        log.info("the collector at %s provides peers for the mesh again", self._settings.url)
                    self._has_failed = False
                    self._backoff.reset()
                    # Limit the rate of requests, whatever the collector returns.
                    await self._sleep(max(0.0, began + _MIN_INTERVAL_SECONDS - self._monotonic()))

    async def exchange(self, http: aiohttp.ClientSession) -> None:
        """Send the results that changed, and apply the assignment in the response."""
        now = self._monotonic()
        changed = tuple(each for each in self._peers.results(now) if self._is_changed(each, now))
        is_settling = any(
            now - peer.since < _SETTLE_SECONDS and not peer.is_settled
            for peer in self._peers.by_node.values()
        )
        report = MeshReport(
            node=self._node,
            session=self._session,
            host=self._advertised.host,
            port=self._advertised.port,
            version=self._version,
            wait_seconds=_SETTLING_WAIT_SECONDS if is_settling else MAX_WAIT_SECONDS,
            results=changed,
        )
        assignment = await self._post(http, report)
        self._sent |= {each.peer: (now, each) for each in changed}
        self._peers.interval_seconds = assignment.interval_seconds
        self._version = assignment.version
        if assignment.peers is not None:
            self._peers.assign(assignment.peers, self._monotonic())
            self._sent = {node: each for node, each in self._sent.items() if node in self._peers.by_node}
            self.changed.set()

    def _is_changed(self, result: PeerResult, now: float) -> bool:
        """Whether the collector does not have a result, or one that differs from it."""
        if result.peer not in self._sent:
            return True
        sent_at, before = self._sent[result.peer]
        return (
            now - sent_at >= _REPEAT_SECONDS
            or _differs(before.p50_seconds, result.p50_seconds)
            or _differs(before.p95_seconds, result.p95_seconds)
            or abs(before.lost_ratio - result.lost_ratio) >= _CHANGE_LOSS
        )

    async def _post(self, http: aiohttp.ClientSession, report: MeshReport) -> MeshAssignment:
        try:
            headers = credentials(self._settings) | {"Content-Encoding": "gzip"}
            packed = gzip.compress(encode(report), mtime=0)
            response = await post(http, self._settings, "/v1/mesh", packed, headers)
        except UserError as error:
            raise _ExchangeError(str(error)) from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _ExchangeError(failure_reason(error)) from error
        if response.status != HTTPStatus.OK:
            raise _ExchangeError(
                _error_detail(response.status, response.body), parse_retry_after(response.headers)
            )
        try:
            return parse_assignment(response.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _ExchangeError(
                f"the response is not an assignment ({error}): check collector.url"
            ) from error

    def _log_failure(self, failure: _ExchangeError) -> None:
        # The collector may have been restarted: it gets all results again.
        self._sent.clear()
        self._version = 0
        if not self._has_failed:
            log.warning(
                "cannot get peers for the mesh from the collector at %s: %s", self._settings.url, failure
            )
        self._has_failed = True


def _differs(before: float | None, now: float | None) -> bool:
    if before is None or now is None:
        return before != now
    return abs(now - before) > max(_CHANGE_SECONDS, _CHANGE_RATIO * before)


def _error_detail(status: int, body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=Problem).detail[:_MAX_DETAIL]
    except INVALID_JSON:
        return f"status {status}: check collector.url"


@dataclass(frozen=True, slots=True)
class Mesh:
    """A started mesh."""

    endpoint: Endpoint
    peers: Peers
    exchange: MeshExchange

    async def run(self) -> None:
        """Probe peers, and exchange results for new ones, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.exchange.run())
            group.create_task(self._probe())

    async def _probe(self) -> None:
        while True:
            self.exchange.changed.clear()
            seconds = self.endpoint.send_due(time.monotonic())
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self.exchange.changed.wait()


@asynccontextmanager
async def open_mesh(node: str, settings: MeshConfig, collector: DeliveryConfig) -> AsyncIterator[Mesh]:
    """The mesh of this node, with its socket open while the block runs; raises `UserError`."""
    session = secrets.randbits(63) or 1
    bound = open_socket(parse_address(settings.listen), session)
    peers = Peers()
    endpoint = Endpoint(bound, session, peers)
    try:
        advertised = settings.advertised(bound.getsockname()[1])
        yield Mesh(endpoint, peers, MeshExchange(node, session, advertised, collector, peers))
    finally:
        endpoint.close()

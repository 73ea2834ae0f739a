"""A collector with a generated cluster in its own process, and requests for hints to it."""

import asyncio
import http.client
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from bench.hints.cluster import BEGIN_SECONDS, cluster, service_name
from collector.act.loop import acting
from collector.common.outages import Outages
from collector.config import AccessConfig, CollectorConfig, HttpConfig
from collector.history.sqlite.history import open_history
from collector.main import make_app
from collector.observe.live_tables import LiveTables
from collector.observe.registry import Registry
from collector.runtime.parts import Core, SnapshotCache
from collector.serve.api.control import Api
from collector.snapshot.tables import Snapshot
from wire.address import parse_address
from wire.http.serving import serving

_ROOT = Path(__file__).resolve().parents[2]
_LISTENING = "listening on "
_JSON = {"Content-Type": "application/json"}


def requests(count: int, policy: str, seed: int = 3) -> Iterator[dict[str, object]]:
    """Make requests for known services and for demands, some with constraints; one in four reserves."""
    generator = np.random.default_rng(seed)
    for number in range(count):
        share = float(generator.uniform(0.2, 1.0))
        demand = {"cpu_cores": share, "memory_bytes": round(share * 2**31)}
        request: dict[str, object] = {"policy": policy, "reserve": demand, "class": 1 + number % 4}
        if number % 3:
            request["service"] = service_name(int(generator.integers(10_000)))
        else:
            request["demand"] = demand
        if number % 5 == 0:
            request |= {"constraints": ["disk==ssd"], "spread": True, "avoid": [service_name(number)]}
        if number % 4 == 0:
            request["reserve_seconds"] = 30.0
        yield request


class FixedSnapshotCache(SnapshotCache):
    """Always returns the same snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self._fixed = snapshot

    async def snapshot(
        self,
        tables: LiveTables,  # noqa: ARG002 - the interface of the class
        now: float,  # noqa: ARG002
        *,
        fresh_seconds: float,  # noqa: ARG002
        oldest_seconds: float,  # noqa: ARG002
    ) -> Snapshot:
        return self._fixed


async def serve(nodes: int, containers: int) -> None:
    """Serve a generated cluster until stdin is closed."""
    access = AccessConfig(tokens="")
    config = CollectorConfig(http=HttpConfig(listen="127.0.0.1:0"), access=access)
    config = msgspec.structs.replace(config, history=msgspec.structs.replace(config.history, path=":memory:"))
    async with open_history(config, Outages()) as history:
        snapshots = FixedSnapshotCache(cluster(nodes, containers))
        core = Core(config, Registry(config), history, lambda: BEGIN_SECONDS, snapshots=snapshots)
        listen = parse_address(config.http.listen)
        async with (
            acting(core) as control,
            serving(make_app(Api.of(core, control)), listen, "http.listen") as address,
        ):
            print(f"{_LISTENING}{address}", flush=True)
            await asyncio.to_thread(sys.stdin.read)


@dataclass(frozen=True, slots=True)
class Server:
    """A collector in its own process."""

    address: str

    def latencies(self, path: str, bodies: Sequence[bytes]) -> list[float]:
        """Seconds from each request to its complete response, over one connection."""
        connection = http.client.HTTPConnection(self.address, timeout=60)
        latencies = []
        for body in bodies:
            began = time.perf_counter()
            connection.request("POST", path, body, _JSON)
            response = connection.getresponse()
            text = response.read()
            latencies.append(time.perf_counter() - began)
            assert response.status == http.client.OK, text
        connection.close()
        return latencies


@contextmanager
def server(nodes: int, containers: int) -> Iterator[Server]:
    """Start a collector, and stop it when the block ends."""
    command = [sys.executable, "-m", "bench.hints.server", str(nodes), str(containers)]
    with subprocess.Popen(
        command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line.startswith(_LISTENING), line
            yield Server(line.removeprefix(_LISTENING).strip())
        finally:
            # This closes its stdin, which stops it.
            process.communicate()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))

"""One hostile node with a valid token: it sends all that the token allows, and tries the rest.

    python -m bench.trust.adversary URL SEED SECONDS

reads the token from stdin, attacks, and prints the number of responses per attack and status. It has its own
process, so that it does not delay the measurements.
"""

import asyncio
import gzip
import itertools
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import urlsplit

import aiohttp
import msgspec

from bench.fuzz.mutations import Mutator
from bench.trust.cluster import JSON, honest_report
from bench.trust.poison import POISON
from wire.messages import (
    Alert,
    ContainerPower,
    ContainerUsage,
    Event,
    EventKind,
    Gap,
    NodePower,
    PowerCurve,
    PowerSource,
    Report,
    encode,
)
from wire.resources import Quantities, Resource
from wire.sketch import Sketch

HOSTILE = "hostile"
_NEW_NAMES, _CROWD, _TEXTS = 40, 100, 64
"""Numbers per report: low, so that many reports of each kind stay below the limit of bytes per node."""
_IDLE_CONNECTIONS = 200
_BOMB_BYTES = 64 << 20
_PAUSE_SECONDS = 0.05
_FIRST_PART = 0.7
_DAY_SECONDS = 86_400.0
_NICENESS = 10
"""A hostile node would run on another machine; here it runs with a low priority."""

Attack = Callable[["Adversary"], Awaitable[int]]


class Adversary:
    """Attacks a collector until it is stopped."""

    def __init__(self, http: aiohttp.ClientSession, url: str, secret: str, seed: int) -> None:
        self._http, self._url, self._secret = http, url, secret
        self.random = random.Random(seed)  # noqa: S311 - reproducible, not a secret
        self._mutator = Mutator(self.random)
        self._numbers = itertools.count(1)
        self.statuses: Counter[str] = Counter()

    async def run(self, seconds: float) -> None:
        """Run all attacks, several at once."""
        began = time.monotonic()
        holding = asyncio.create_task(self._hold_connections(began + seconds))
        most = began + _FIRST_PART * seconds
        await asyncio.gather(*(self._repeat(attacks, most) for attacks in (_FLOODS, _LIES, POISON)))
        # Last, because large bodies use up the bytes that a node may send.
        await self._repeat(_NOISE, began + seconds)
        await holding

    async def _repeat(self, attacks: tuple[Attack, ...], until: float) -> None:
        for attack in itertools.cycle(attacks):
            if time.monotonic() >= until:
                return
            try:
                status = await attack(self)
            except (aiohttp.ClientError, OSError, TimeoutError):
                status = 0
            self.statuses[f"{attack.__name__} {status}"] += 1
            await asyncio.sleep(_PAUSE_SECONDS)

    async def post(self, body: bytes, path: str = "/v1/reports", **headers: str) -> int:
        """Send a request, and return the status of the response."""
        own = {**JSON, "Authorization": f"Bearer {self._secret}", **headers}
        async with self._http.post(self._url + path, data=body, headers=own) as response:
            await response.read()
            return response.status

    def report(self, **changes: object) -> Report:
        """Make a valid report of its own node, with changes."""
        number = next(self._numbers)
        valid = msgspec.structs.replace(
            honest_report(0, number, time.time(), 2.0 * number), node=HOSTILE, boot=f"boot-{number % 50}"
        )
        return msgspec.structs.replace(valid, **changes)

    async def _hold_connections(self, until: float) -> None:
        """Open connections without sending anything, to use up descriptors."""
        address = urlsplit(self._url)
        held = []
        for _ in range(_IDLE_CONNECTIONS):
            try:
                held.append(await asyncio.open_connection(address.hostname, address.port))
            except OSError:
                break
        await asyncio.sleep(max(0.0, until - time.monotonic()))
        for _, writer in held:
            writer.close()

    # --- Attacks ----------------------------------------------------------------------------

    async def new_names(self) -> int:
        (template, *_) = self.report().containers
        number = next(self._numbers)
        labels = {f"label-{place}": f"{number}" * 50 for place in range(20)}
        containers = tuple(
            msgspec.structs.replace(
                template,
                id=f"{number}-{place}",
                name=f"{number}-{place}",
                service=f"s{number}",
                labels=labels,
            )
            for place in range(_NEW_NAMES)
        )
        return await self.post(encode([self.report(containers=containers)]))

    async def many_alerts(self) -> int:
        number = next(self._numbers)
        alerts = tuple(
            Alert(
                resource=resource,
                opened_at=time.time() - number,
                evidence="hostile",
            )
            for resource in Resource
        )
        return await self.post(encode([self.report(alerts=alerts)]))

    async def many_events(self) -> int:
        events = tuple(
            Event(EventKind.DIED, time.time(), container=f"c{place}", joules_total=1e17)
            for place in range(200)
        )
        return await self.post(encode([self.report(events=events)]))

    async def absurd_numbers(self) -> int:
        value = self.random.choice([1e15, 2.0**62, 1e-300, 0.0])
        report = self.report()
        containers = tuple(
            msgspec.structs.replace(each, used=Quantities(value, 2**62, value, value))
            for each in report.containers
        )
        return await self.post(encode([msgspec.structs.replace(report, containers=containers)]))

    async def claimed_samples(self) -> int:
        report = self.report()
        assert report.heartbeat is not None
        usage = tuple(
            ContainerUsage(each.id, cpu=Sketch({2000: 2**32 - 1}), memory=Sketch({2000: 2**32 - 1}))
            for each in report.containers
        )
        heartbeat = msgspec.structs.replace(report.heartbeat, usage=usage)
        return await self.post(encode([msgspec.structs.replace(report, heartbeat=heartbeat)]))

    async def other_nodes(self) -> int:
        stolen = honest_report(self.random.randrange(100), next(self._numbers), time.time(), 5.0)
        return await self.post(encode([stolen]))

    async def other_containers(self) -> int:
        victim = honest_report(self.random.randrange(100), 1, time.time(), 5.0)
        return await self.post(encode([self.report(containers=victim.containers)]))

    async def wrong_times(self) -> int:
        at = self.random.choice([0.0, 1e11, time.time() + 86_400 * 366, time.time() - 86_400 * 366])
        return await self.post(encode([self.report(at=at)]))

    async def wrong_sequences(self) -> int:
        sequence = self.random.choice([2**63 - 1, 1, self.random.getrandbits(60) + 1])
        return await self.post(encode([self.report(sequence=sequence)]))

    async def absurd_power(self) -> int:
        report, joules = self.report(), self.random.choice([0.0, 1e12, 1e18])
        assert report.state is not None
        assert report.heartbeat is not None
        power = NodePower(1e9, 1e9, 1e9, PowerSource.RAPL, 1e12, joules)
        greedy = ContainerPower(1e9, PowerSource.RAPL, 1e12, joules, 1e9)
        curve = PowerCurve(PowerSource.RAPL, 1e12, 1e9, (0.0, 1.0), (1e9, 0.0), 1e9, 1e9, 1e9)
        return await self.post(
            encode(
                [
                    msgspec.structs.replace(
                        report,
                        state=msgspec.structs.replace(report.state, power=power),
                        containers=tuple(
                            msgspec.structs.replace(each, power=greedy) for each in report.containers
                        ),
                        heartbeat=msgspec.structs.replace(report.heartbeat, power_curve=curve),
                    )
                ]
            )
        )

    async def time_travel(self) -> int:
        """Report times that jump back and forth by a week, with many containers."""
        (template, *_) = self.report().containers
        number = next(self._numbers)
        crowd = tuple(
            msgspec.structs.replace(template, id=f"crowd-{place}", name=f"crowd-{place}")
            for place in range(_CROWD)
        )
        at = time.time() - 6.9 * _DAY_SECONDS * (number % 2)
        return await self.post(encode([self.report(at=at, boot="crowd", containers=crowd)]))

    async def long_texts(self) -> int:
        report, number = self.report(), next(self._numbers)
        assert report.state is not None
        gaps = tuple(Gap(f"{number}-{place}", f"{number}" * 100) for place in range(_TEXTS))
        state = msgspec.structs.replace(report.state, gaps=gaps)
        return await self.post(encode([msgspec.structs.replace(report, state=state)]))

    async def unknown_ends(self) -> int:
        number = next(self._numbers)
        gone = tuple(f"never-{number}-{place}" for place in range(20 * _CROWD))
        return await self.post(encode([self.report(heartbeat=None, gone=gone)]))

    async def tiny_heartbeats(self) -> int:
        reports = [self.report(containers=(), state=None) for _ in range(5)]
        return await self.post(encode(reports))

    async def noise(self) -> int:
        body = self._mutator.next()
        headers = {"Content-Type": body.content_type, "Content-Encoding": body.encoding}
        return await self.post(body.data.replace(b"fuzzed", HOSTILE.encode()), **headers)

    async def bomb(self) -> int:
        return await self.post(_bomb(), **{"Content-Encoding": "gzip"})

    async def slow_body(self) -> int:
        async def body() -> AsyncIterator[bytes]:
            for _ in range(10):
                yield b"["
                await asyncio.sleep(0.1)

        headers = {**JSON, "Authorization": f"Bearer {self._secret}"}
        async with self._http.post(f"{self._url}/v1/reports", data=body(), headers=headers) as response:
            return response.status

    async def other_routes(self) -> int:
        path = self.random.choice(["/v1/room", "/v1/control", "/v1/hints/placement", "/v1/hints/rebalance"])
        return await self.post(b"{}", path)


def _bomb() -> bytes:
    if not _compressed:
        _compressed.append(gzip.compress(b"[" + bytes(_BOMB_BYTES), 1))
    return _compressed[0]


_compressed: list[bytes] = []
_FLOODS: tuple[Attack, ...] = (
    *(Adversary.new_names, Adversary.many_alerts, Adversary.many_events, Adversary.time_travel),
    *(Adversary.long_texts, Adversary.unknown_ends, Adversary.tiny_heartbeats),
)
_LIES: tuple[Attack, ...] = (
    *(Adversary.absurd_numbers, Adversary.claimed_samples, Adversary.other_nodes, Adversary.other_containers),
    *(Adversary.wrong_times, Adversary.wrong_sequences, Adversary.other_routes, Adversary.absurd_power),
)
_NOISE: tuple[Attack, ...] = (*(Adversary.noise,) * 50, Adversary.bomb, Adversary.slow_body)


async def attack(url: str, secret: str, seed: int, seconds: float) -> dict[str, int]:
    """Attack from another process; returns the number of responses per attack and status."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.trust.adversary", url, str(seed), str(seconds)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate(secret.encode())
    statuses: dict[str, int] = json.loads(output)
    return statuses


async def _main(url: str, seed: int, seconds: float) -> None:
    os.nice(_NICENESS)
    async with aiohttp.ClientSession() as http:
        adversary = Adversary(http, url, sys.stdin.readline().strip(), seed)
        await adversary.run(seconds)
    print(json.dumps(dict(adversary.statuses.most_common())))


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))

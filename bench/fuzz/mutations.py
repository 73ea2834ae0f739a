"""Request bodies that no agent sends: mutated reports, and noise.

They start as valid batches in JSON, some with heartbeats and histograms. Then a value is replaced by an
impossible or unusual one; bytes are flipped, removed, repeated, or joined with those of another batch; and
the body is compressed, correctly, incorrectly, or with a wrong header.
"""

import gzip
import json
import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from wire.messages import (
    Alert,
    ContainerPower,
    ContainerState,
    ContainerUsage,
    Event,
    EventKind,
    Gap,
    Heartbeat,
    NodePower,
    NodeState,
    PowerCurve,
    PowerSource,
    Pressure,
    Report,
    encode,
)
from wire.resources import Quantities, Resource
from wire.sketch import Sketch

JSON_TYPE, OTHER_TYPE = "application/json", "application/msgpack"
NODE = "fuzzed"
"""The node of every valid batch."""

_SEEDS = 24
_LONGEST_NOISE_BYTES = 600
_BOMB_BYTES = 32 << 20
_SCALAR = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|true|false|null')
_LONG = "x" * 2000
_ODD_JSON = tuple(
    text.encode("latin-1")
    for text in (
        *(
            "null",
            "true",
            "-1",
            "0",
            "1",
            "1.5",
            "-5000",
            "-0.0",
            "1e-400",
            "1e308",
            "1e400",
            "NaN",
            "Infinity",
        ),
        *("9223372036854775807", "9223372036854775808", "1" * 400),
        *('""', '"\\ud800"', '"\\u0000"', f'"{_LONG}"', '"fuzzed"', '"rapl"', '"cpu"', '"\xff"', "\xff"),
        *("[]", "{}", "[[]]", "[" * 600, '{"a":' * 600),
    )
)
_ODD_VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 1.5, -0.0, 1e308, math.inf, -math.inf, math.nan),
    *(2**63 - 1, 2**63, 2**64 - 1, -(2**63)),
    *("", "\0", _LONG, NODE, "rapl", "cpu", b"", b"alpha"),
    *([], {}, [[[[]]]], {1: 2}, {"": 0}, {-5000: 1}, {0: -1}, {4000: 2**63 - 1}),
)


@dataclass(frozen=True, slots=True)
class Body:
    """A body and its headers."""

    content_type: str
    encoding: str
    data: bytes


def batch(chance: random.Random) -> list[Report]:
    """Make a few valid reports."""
    sequence = chance.randrange(1, 1 << 40)
    return [_report(chance, sequence + number) for number in range(chance.randint(1, 3))]


def _report(chance: random.Random, sequence: int) -> Report:
    names = [f"c{number}" for number in range(chance.randint(0, 4))]
    is_heartbeat = chance.random() < 0.7  # noqa: PLR2004 - often enough
    return Report(
        node=NODE,
        boot=f"boot{chance.randrange(3)}",
        sequence=sequence,
        at=1.8e9 + chance.random() * 1e6,
        state=_state(chance),
        containers=tuple(_container(chance, name) for name in names),
        gone=("old",) if chance.random() < 0.5 else (),  # noqa: PLR2004 - half of them
        events=tuple(Event(EventKind.DIED, 1.8e9, name, name, exit_code=-9) for name in names[:1]),
        alerts=(Alert(Resource.CPU, 1.8e9, "CPU at 97 %", ratio=0.97, container="c0"),),
        heartbeat=_heartbeat(chance, names) if is_heartbeat else None,
    )


def _state(chance: random.Random) -> NodeState:
    return NodeState(
        used=Quantities(chance.random(), chance.randrange(1 << 34), chance.random() * 1e6, 5.0),
        capacity=Quantities(4.0, 1 << 35, None, 1e9),
        window_seconds=30.0,
        learned_capacities=(Resource.DISK,),
        pressure=Pressure(0.1, None, 0.3),
        power=NodePower(50.0, 30.0, 5.0, PowerSource.MODEL, 0.25, chance.random() * 1e6),
        oom_kills_total=0,
        gaps=(Gap("RAPL", "this is a virtual machine"),),
    )


def _container(chance: random.Random, name: str) -> ContainerState:
    return ContainerState(
        id=name,
        name=name,
        runtime="docker",
        cpu_seconds_total=chance.random() * 1e5,
        used=Quantities(chance.random(), chance.randrange(1 << 30)),
        limit=Quantities(1.0, 1 << 30),
        power=ContainerPower(2.5, PowerSource.MODEL, 0.2, 75.0, idle_watts=0.5),
        restarts=1,
        labels={"tier": "front", "wattpack.class": "2"},
        started_at=1.7e9,
    )


def _heartbeat(chance: random.Random, names: list[str]) -> Heartbeat:
    def sketch() -> Sketch:
        bins = {chance.randint(-300, 1500): chance.randint(1, 100) for _ in range(chance.randint(0, 12))}
        return Sketch(bins, zeros=chance.randint(0, 9))

    curve = PowerCurve(PowerSource.MODEL, 0.1, 20.0, (0.0, 0.5, 1.0), (0.0, 30.0, 40.0), memory_watts=8.0)
    return Heartbeat(
        agent_version="0.1.0",
        sample_seconds=3.0,
        beacon_seconds=30.0,
        usage=tuple(ContainerUsage(name, sketch(), sketch(), sketch(), sketch()) for name in names),
        top={Resource.CPU: tuple(names)},
        power_curve=curve,
    )


@cache
def _bomb() -> bytes:
    """A decompression bomb: many zeros in a few bytes."""
    return gzip.compress(bytes(_BOMB_BYTES), 1, mtime=0)


class Mutator:
    """Makes bodies; the same ones for the same random generator."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._json: list[bytes] = [b""] * _SEEDS
        self._scalars: list[list[tuple[int, int]]] = [[] for _ in range(_SEEDS)]
        for number in range(_SEEDS):
            self._renew(number)
        self._generators: tuple[Callable[[], Body], ...] = (
            self._noise,
            self._odd_json,
            self._odd_json,
            self._odd_tree,
            self._odd_tree,
            self._valid,
        )

    def next(self) -> Body:
        """Make another body."""
        chance = self._chance
        if chance.random() < 0.0005:  # noqa: PLR2004 - a bomb costs as much as a thousand others
            return Body(JSON_TYPE, "gzip", _bomb())
        if chance.randrange(_SEEDS) == 0:
            self._renew(chance.randrange(_SEEDS))
        body = chance.choice(self._generators)()
        data = body.data
        if chance.randrange(2):
            data = self._damage(data)
        if chance.randrange(10) == 0:
            body = Body(OTHER_TYPE, body.encoding, data)
        return self._compress(Body(body.content_type, body.encoding, data))

    def _renew(self, number: int) -> None:
        """Start from a new batch: a collector ignores the contents of a batch that it has received before."""
        new = batch(self._chance)
        self._json[number] = encode(new)
        self._scalars[number] = [found.span() for found in _SCALAR.finditer(self._json[number])]

    def _noise(self) -> Body:
        data = self._chance.randbytes(self._chance.randrange(_LONGEST_NOISE_BYTES))
        return Body(JSON_TYPE, "identity", data)

    def _valid(self) -> Body:
        return Body(JSON_TYPE, "identity", self._chance.choice(self._json))

    def _odd_json(self) -> Body:
        number = self._chance.randrange(_SEEDS)
        start, end = self._chance.choice(self._scalars[number])
        body = self._json[number]
        return Body(JSON_TYPE, "identity", body[:start] + self._chance.choice(_ODD_JSON) + body[end:])

    def _odd_tree(self) -> Body:
        tree = json.loads(self._chance.choice(self._json))
        for report in tree:
            report["sequence"] = self._chance.randrange(1, 1 << 62)
        at: Any = tree
        while True:
            key = self._chance.choice(list(at) if isinstance(at, dict) else range(len(at)))
            below = at[key]
            if not (isinstance(below, (dict, list)) and below and self._chance.randrange(4)):
                break
            at = below
        if isinstance(at, dict) and self._chance.randrange(4) == 0:
            at[self._chance.choice((-5000, 7, "surprise", "", 2**40))] = at.pop(key)
        else:
            at[key] = self._chance.choice(_ODD_VALUES)
        return Body(JSON_TYPE, "identity", msgspec.json.encode(tree))

    def _damage(self, data: bytes) -> bytes:
        chance = self._chance
        start = chance.randint(0, len(data))
        end = min(len(data), start + chance.choice((0, 1, 4, 40, 400)))
        match chance.randrange(6):
            case 0:
                return data[:start]
            case 1:
                return data[:start] + data[end:]
            case 2:
                return data[:end] + data[start:end] * chance.choice((1, 2, 50)) + data[end:]
            case 3:
                return data[:start] + chance.randbytes(end - start) + data[end:]
            case 4:
                other = chance.choice(self._json)
                return data[:start] + other[chance.randrange(len(other)) :]
            case _:
                flipped = bytearray(data)
                for _ in range(min(len(flipped), chance.randint(1, 4))):
                    flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
                return bytes(flipped)

    def _compress(self, body: Body) -> Body:
        chance = self._chance
        match chance.randrange(8):
            case 0:
                encoding, data = "gzip", gzip.compress(body.data, 1, mtime=0)
            case 1:
                encoding, data = "gzip", body.data
            case _:
                return body
        if chance.randrange(3) == 0:
            data = self._damage(data)
        return Body(body.content_type, encoding, data)


def describe(body: Body) -> str:
    """Describe a body in one line, to reproduce a failure."""
    return json.dumps([body.content_type, body.encoding, body.data[:4000].hex()])

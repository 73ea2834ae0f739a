import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
import pytest

from collector.config import PlacementConfig
from collector.main import running
from tests.collector.api.test_hints import NEED, alarmed, heard
from tests.collector.builders import START, Client, Clock, container, settings
from wattpack.cli import main
from wattpack.commands.hint import parse_size
from wire.errors import UserError
from wire.resources import Quantities


@pytest.fixture
async def collector() -> AsyncIterator[Client]:
    clock = Clock()
    always_new = msgspec.structs.replace(
        settings(), placement=PlacementConfig(snapshot_seconds=0, oldest_seconds=0)
    )
    async with running(always_new, clock=clock) as running_one, aiohttp.ClientSession() as http:
        yield Client(running_one.address.url, http, clock)


async def printed(client: Client, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    status = await asyncio.to_thread(main, [*arguments, "--collector", client.url])
    captured = capsys.readouterr()
    assert status == 0, captured.err
    return captured.out


async def complained(client: Client, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    status = await asyncio.to_thread(main, [*arguments, "--collector", client.url])
    assert status == 2
    return capsys.readouterr().err


async def test_a_person_is_told_where_and_why(collector: Client, capsys: pytest.CaptureFixture[str]) -> None:
    await collector.send(heard("calm", 1.0), heard("dark", 2.0, curve=False), heard("full", 7.9))
    asked = ("hint", "new", "--cpu", "1", "--memory", "1GB", "--policy", "draps", "--keep", "60")
    lines = (await printed(collector, capsys, *asked)).splitlines()
    assert lines[0].startswith("By draps. Taken to need 1 cores, 953.7 MiB of memory: given in the request")
    calm = next(number for number, line in enumerate(lines) if line.startswith("calm"))
    assert "25%" in lines[calm]
    assert " W ±" in lines[calm]
    assert "available on average" in lines[calm + 1]
    dark = next(line for line in lines if line.startswith("dark"))
    assert dark.split()[-2:] == ["-", "100%"]
    assert "Refused, as not enough free CPU: 1: full" in lines
    assert lines[-1].startswith("calm is kept for it as ")


async def test_what_a_cut_request_is_promised_stands_under_its_node(
    collector: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    strict = container("strict", limit=Quantities(7.0, 1_000_000_000), labels={"wattpack.class": "1"})
    await collector.send(heard("full", 1.0, containers=(strict,)))
    asked = ("hint", "--cpu", "2", "--memory", "1GiB", "--class", "4", "--policy", "energy4cloud")
    lines = (await printed(collector, capsys, *asked)).splitlines()
    assert "    it is promised no more there than 1 cores, 512.0 MiB of memory" in lines


async def test_a_program_is_told_the_same(collector: Client, capsys: pytest.CaptureFixture[str]) -> None:
    await collector.send(heard("calm", 1.0), heard("busy", 4.0))
    shape: dict[str, Any] = {"demand": NEED, "reserve": NEED, "policy": "draps", "exclude": ["busy"]}
    _, expected = await collector.post(msgspec.json.encode(shape), "/v1/hints/placement")
    size = ("--cpu", "1", "--memory", "1000000000", "--exclude", "busy")
    answer = json.loads(await printed(collector, capsys, "hint", *size, "--policy", "draps", "--json"))
    assert answer == expected


async def test_nowhere_is_said_with_all_reasons(
    collector: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    await collector.send(heard("a"), heard("b"))
    out = await printed(collector, capsys, "hint", "--cpu", "100", "--all-refused")
    assert "It fits nowhere." in out
    assert ": 2: a, b" in out


async def test_a_plan_is_told_with_its_reasons(collector: Client, capsys: pytest.CaptureFixture[str]) -> None:
    hungry = container("hungry", used=Quantities(3.0, 1_000_000), started_at=START - 5000)
    await collector.send(alarmed("hot", (hungry,)), heard("cool", 1.0))
    out = await printed(collector, capsys, "plan", "--policy", "draps")
    assert out.startswith("By draps: 1 to do, from ")
    assert "  1. move hungry from hot to cool" in out
    assert "hot is short of cpu" in out
    out = await printed(collector, capsys, "plan", "--policy", "draps", "--moves", "0")
    assert "Left as it is:\n  hot stays short of cpu: a plan has at most 0 moves" in out
    plan = json.loads(await printed(collector, capsys, "plan", "--policy", "draps", "--json"))
    assert plan["actions"][0]["target"] == "cool"


async def test_what_is_wrong_is_one_sentence(collector: Client, capsys: pytest.CaptureFixture[str]) -> None:
    assert "say what wants a place" in await complained(collector, capsys, "hint")
    assert "there is no policy 'best'" in await complained(collector, capsys, "hint", "a", "--policy", "best")
    assert "is no size" in await complained(collector, capsys, "hint", "--memory", "much")
    assert "write KEY=VALUE" in await complained(collector, capsys, "plan", "--setting", "moves")
    refused = await complained(collector, capsys, "plan", "--policy", "draps", "--setting", "moves=x")
    assert "$.settings.moves" in refused


def test_who_does_not_answer_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--collector", "http://127.0.0.1:1"]) == 2
    assert "http://127.0.0.1:1 does not answer" in capsys.readouterr().err
    assert main(["hint", "a", "--collector", "here"]) == 2
    assert "write an address" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "expected"),
    [("4GiB", 4 * 2**30), ("512M", 512e6), ("1.5kB", 1500), ("20MB/s", 20e6), ("7", 7), ("1 TiB", 2**40)],
)
def test_sizes_are_read_as_people_write_them(text: str, expected: float) -> None:
    assert parse_size(text) == expected


@pytest.mark.parametrize("text", ["", "GiB", "-1", "4 gallons", "1e3"])
def test_what_is_no_size_is_named(text: str) -> None:
    with pytest.raises(UserError, match="is no size"):
        parse_size(text)

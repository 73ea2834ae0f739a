"""A machine joins, and a second one of the same name is refused and noticed."""

import asyncio
import stat
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from collector.main import running
from collector.serve.web import tokens as token_file
from collector.serve.web.scopes import Scope
from collector.serve.web.tokens import edit_tokens, make_token, read_tokens
from tests.collector.builders import HEARTBEAT, START, Client, Clock, collecting, report, settings
from wattpack.cli import main
from wattpack.commands.agent import with_settings
from wire.messages import Report, encode

MACHINE, OTHER = "a" * 32, "b" * 32


def add(path: Path, kind: Scope, name: str, expires_at: float | None = None) -> str:
    token, secret = make_token(kind, name, START, expires_at)
    with edit_tokens(path) as tokens:
        tokens.append(token)
    return secret


def heartbeat(machine: str | None, *, boot: str = "first", sequence: int = 1, at: float = START) -> Report:
    whole = report("web1", boot=boot, sequence=sequence, at=at)
    return msgspec.structs.replace(whole, heartbeat=msgspec.structs.replace(HEARTBEAT, machine=machine))


@pytest.fixture
async def collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    # Otherwise the file is checked once a second.
    monkeypatch.setattr(token_file, "_CHECK_SECONDS", 0.0)
    add(tmp_path / "tokens.jsonl", Scope.ADMIN, "me")
    async with collecting(settings(tokens=tmp_path / "tokens.jsonl")) as client:
        yield client


async def join(collector: Client, secret: str, node: str, machine: str = MACHINE) -> tuple[int, Any]:
    body = encode({"node": node, "machine": machine})
    headers = {"Authorization": f"Bearer {secret}"}
    return await collector.post(body, "/v1/join", headers)


async def test_a_join_token_is_exchanged_for_the_token_of_the_node(collector: Client, tmp_path: Path) -> None:
    path = tmp_path / "tokens.jsonl"
    secret = add(path, Scope.JOIN, "web*", START + 3600)
    status, joined = await join(collector, secret, "web1")
    assert (status, joined["node"]) == (200, "web1")
    [_, _, token] = read_tokens(path) or []
    assert (token.kind, token.name, token.machine) == (Scope.NODE, "web1", MACHINE)
    status, refused = await join(collector, secret, "db1")
    assert (status, refused["field"]) == (403, "$.node")

    async def send(machine: str) -> int:
        headers = {"Authorization": f"Bearer {joined['token']}"}
        return (await collector.post(encode([heartbeat(machine)]), headers=headers))[0]

    assert await send(OTHER) == 403, "the token is of no use on another machine"
    assert await send(MACHINE) == 200
    status, again = await join(collector, secret, "web1")
    assert status == 200, "the same machine joins again: its token is replaced"
    assert again["token"] != joined["token"]
    assert len(read_tokens(path) or []) == 3
    status, refused = await join(collector, secret, "web1", OTHER)
    assert (status, "wattpack token revoke web1" in refused["detail"]) == (409, True)
    collector.clock.now += 3600
    assert (await join(collector, secret, "web2"))[0] == 401, "a join token has a limited life"


async def test_a_join_token_does_nothing_else(collector: Client, tmp_path: Path) -> None:
    secret = add(tmp_path / "tokens.jsonl", Scope.JOIN, "*", START + 3600)
    await join(collector, secret, "web1")
    headers = {"Authorization": f"Bearer {secret}"}
    assert (await collector.ask("/v1/nodes", **headers))[0] == 403
    assert (await collector.post(encode([heartbeat(MACHINE)]), headers=headers))[0] == 403


async def test_a_join_token_lets_a_limited_number_of_nodes_join(tmp_path: Path) -> None:
    path = tmp_path / "tokens.jsonl"
    secrets = [add(path, Scope.JOIN, "*", START + 3600) for _ in range(2)]
    config = settings(tokens=path)
    config = msgspec.structs.replace(config, access=msgspec.structs.replace(config.access, max_joins=3))
    async with collecting(config) as collector:
        statuses = [(await join(collector, secrets[0], f"web{number}"))[0] for number in range(5)]
        assert statuses == [200, 200, 200, 403, 403]
        assert (await join(collector, secrets[0], "web1"))[0] == 200, "a node that has joined can join again"
        assert (await join(collector, secrets[1], "web4"))[0] == 200
        _, refused = await join(collector, secrets[0], "web9")
        assert "wattpack token add join" in refused["detail"]


async def test_a_name_that_reports_without_a_token_of_its_own_cannot_be_joined(tmp_path: Path) -> None:
    """It has a certificate, or is read from a Prometheus."""
    path = tmp_path / "tokens.jsonl"
    secret = add(path, Scope.JOIN, "*", START + 3600)
    async with running(settings(tokens=path), clock=Clock()) as running_collector:
        core = running_collector.core
        core.registry.apply(heartbeat(OTHER), START)
        core.registry.apply(report("web2"), START)
        async with aiohttp.ClientSession() as http:
            client = Client(running_collector.address.url, http, Clock())
            for node in ("web1", "web2"):
                status, refused = await join(client, secret, node)
                assert (status, refused["field"]) == (409, "$.node")
            assert (await join(client, secret, "web1", OTHER))[0] == 200
            assert (await join(client, secret, "web3"))[0] == 200


async def test_the_command_stores_the_token_and_the_settings(
    collector: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = add(tmp_path / "tokens.jsonl", Scope.JOIN, "*", START + 3600)
    file, config = tmp_path / "agent" / "token", tmp_path / "agent.toml"
    config.write_text("# Settings\n\n[sampling]\n#interval_seconds = 3.0\n", encoding="utf-8")
    command = ["agent", "join", collector.url, secret, "--node", "web1", "--token-file", str(file)]
    assert await asyncio.to_thread(main, [*command, "--config", str(config)]) == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text().startswith("wattpack-node-")
    text = config.read_text(encoding="utf-8")
    assert f'[collector]\ntoken_file = "{file}"\nurl = "{collector.url}"\n' in text
    assert 'node = "web1"' in text
    assert main(["admin", "check-config", "agent", str(config)]) == 0
    assert "systemctl restart wattpack-agent" in capsys.readouterr().out
    assert (
        await asyncio.to_thread(main, ["agent", "join", collector.url, "wrong", "--config", str(config)]) == 2
    )
    assert "wattpack token add join" in capsys.readouterr().err


BEFORE = """\
#node = ""

[collector]
# The URL.
#url = "http://a"
enabled = true

[spool]
#url = ""
"""


def test_settings_are_set_where_they_are_commented_out() -> None:
    after = with_settings(with_settings(BEFORE, "collector", {"url": "https://b"}), "", {"node": "n"})
    changed = BEFORE.replace('#url = "http://a"', 'url = "https://b"').replace('#node = ""', 'node = "n"')
    assert after == changed


async def send_report(collector: Client, sent: Report) -> int:
    return (await collector.post(encode([sent])))[0]


async def test_a_second_machine_of_the_same_name_is_refused_and_noticed() -> None:
    clock = Clock()
    async with running(settings(), clock=clock) as collector, aiohttp.ClientSession() as http:
        send = partial(send_report, Client(collector.address.url, http, clock))
        assert await send(heartbeat(MACHINE)) == 200
        assert await send(heartbeat(OTHER, boot="second")) == 409
        beacon = Report(node="web1", boot="second", sequence=2, at=START + 1)
        assert await send(beacon) == 409
        assert await send(heartbeat(None, boot="third")) == 409, "a machine without an id is not it"
        assert await send(heartbeat(MACHINE, boot="fourth", at=START + 2)) == 200, "a restart"
        [opened] = await collector.analysis.detect()
        assert (opened.finding.kind, opened.finding.subject) == ("duplicate", "web1")
        clock.now += 3600
        assert await send(heartbeat(OTHER, boot="fifth", at=START + 3)) == 200, "the first one is down"


async def test_two_agents_with_the_same_machine_id_are_noticed() -> None:
    """A virtual machine that was copied with its id."""
    clock = Clock()
    async with running(settings(), clock=clock) as collector, aiohttp.ClientSession() as http:
        send = partial(send_report, Client(collector.address.url, http, clock))
        for number in range(4):
            boot = ("first", "second")[number % 2]
            again = heartbeat(MACHINE, boot=boot, sequence=number + 1, at=START + number)
            assert await send(again) == 200
        [opened] = await collector.analysis.detect()
        assert (opened.finding.kind, opened.finding.subject) == ("duplicate", "web1")

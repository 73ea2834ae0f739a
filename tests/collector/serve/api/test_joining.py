"""A machine joins, and a second one of the same name is refused and noticed."""

import asyncio
import stat
import tomllib
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import aiohttp
import msgspec
import pytest

from collector.main import running
from collector.serve.api import joining
from collector.serve.web import tokens as token_file
from collector.serve.web.scopes import Scope
from collector.serve.web.tokens import Tokens, edit_tokens, make_token, read_tokens
from tests.collector.builders import HEARTBEAT, START, Client, Clock, collecting, report, settings
from wattpack.cli import main
from wattpack.commands import agent_join
from wattpack.commands.agent_join import with_settings
from wire.errors import UserError
from wire.http.authorization import secret_hash
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


async def join(
    collector: Client, secret: str, node: str, machine: str = MACHINE, own: str = ""
) -> tuple[int, Any]:
    """Join with a token that the machine made: the same one each time, unless `own` is another."""
    body = encode({"node": node, "machine": machine, "sha256": secret_hash(f"{machine}{node}{own}".encode())})
    headers = {"Authorization": f"Bearer {secret}"}
    return await collector.post(body, "/v1/join", headers)


async def send_as(collector: Client, node: str, machine: str = MACHINE, own: str = "") -> int:
    """Report with the token that `join` registers."""
    sent = heartbeat(machine)
    sent = msgspec.structs.replace(sent, node=node)
    headers = {"Authorization": f"Bearer {MACHINE}{node}{own}"}
    return (await collector.post(encode([sent]), headers=headers))[0]


def revoke(path: Path, *arguments: str) -> None:
    assert main(["token", "revoke", *arguments, "--file", str(path)]) == 0


async def test_with_a_join_token_a_machine_registers_a_token_of_its_node(
    collector: Client, tmp_path: Path
) -> None:
    path = tmp_path / "tokens.jsonl"
    secret = add(path, Scope.JOIN, "web*", START + 3600)
    assert await join(collector, secret, "web1") == (200, {"node": "web1"})
    [_, _, token] = read_tokens(path) or []
    assert (token.kind, token.name, token.machine) == (Scope.NODE, "web1", MACHINE)
    status, refused = await join(collector, secret, "db1")
    assert (status, refused["field"]) == (403, "$.node")
    assert await send_as(collector, "web1", OTHER) == 403, "the token is of no use on another machine"
    assert await send_as(collector, "web1") == 200
    assert (await join(collector, secret, "web1"))[0] == 200, "the answer was lost"
    assert read_tokens(path) == [*(read_tokens(path) or [])[:2], token]
    collector.clock.now += 3600
    assert (await join(collector, secret, "web2"))[0] == 401, "a join token has a limited life"


@pytest.mark.parametrize(("machine", "own"), [(OTHER, ""), (MACHINE, "another"), (OTHER, "another")])
async def test_a_name_belongs_to_its_machine_and_token_for_good(
    collector: Client, tmp_path: Path, machine: str, own: str
) -> None:
    path = tmp_path / "tokens.jsonl"
    secret = add(path, Scope.JOIN, "*", START + 1e9)
    await join(collector, secret, "web1")
    collector.clock.now += 1e8  # it is long down, and forgotten
    status, refused = await join(collector, secret, "web1", machine, own)
    assert (status, "wattpack token add join web1" in refused["detail"]) == (409, True)
    given_away = add(path, Scope.JOIN, "web1", START + 1e9)
    assert (await join(collector, given_away, "web1", machine, own))[0] == 200
    assert (await join(collector, given_away, "web1", MACHINE, "third"))[0] == 409, "once"


async def test_a_revoked_host_does_not_join_again(collector: Client, tmp_path: Path) -> None:
    path = tmp_path / "tokens.jsonl"
    secrets = [add(path, Scope.JOIN, name, START + 3600) for name in ("*", "web1")]
    await join(collector, secrets[0], "web1")
    [*_, token] = read_tokens(path) or []
    revoke(path, token.id)
    assert await send_as(collector, "web1") == 401
    for secret in secrets:
        for machine, own in ((MACHINE, ""), (MACHINE, "another"), (OTHER, "another")):
            status, refused = await join(collector, secret, "web1", machine, own)
            assert status == 409, refused
    assert (await join(collector, secrets[0], "web2"))[0] == 409, "the machine was revoked, not only the name"
    assert await send_as(collector, "web1") == 401
    newer = add(path, Scope.JOIN, "web1", START + 3600)
    assert (await join(collector, newer, "web1", MACHINE, "another"))[0] == 200
    assert await send_as(collector, "web1", own="another") == 200


async def test_a_revoked_host_cannot_use_its_join_token_if_that_is_revoked_too(
    collector: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tokens.jsonl"
    secret = add(path, Scope.JOIN, "*", START + 1e11)
    for node in ("web1", "web2"):
        await join(collector, secret, node, node)
    revoke(path, "web1")
    printed = capsys.readouterr().out
    [join_id] = [each.id for each in read_tokens(path) or [] if each.kind is Scope.JOIN]
    assert f"wattpack token revoke {join_id}" in printed
    revoke(path, "web2", "--join-token")
    assert (await join(collector, secret, "web3", OTHER))[0] == 401


async def test_a_token_in_use_cannot_be_registered_for_another_node(
    collector: Client, tmp_path: Path
) -> None:
    secret = add(tmp_path / "tokens.jsonl", Scope.JOIN, "*", START + 3600)
    await join(collector, secret, "web1")
    body = encode({"node": "web2", "machine": OTHER, "sha256": secret_hash(f"{MACHINE}web1".encode())})
    status, refused = await collector.post(body, "/v1/join", {"Authorization": f"Bearer {secret}"})
    assert (status, refused["field"]) == (409, "$.sha256")


async def test_a_name_with_a_control_character_is_refused(collector: Client, tmp_path: Path) -> None:
    """It would fake a line in a list of tokens."""
    secret = add(tmp_path / "tokens.jsonl", Scope.JOIN, "*", START + 3600)
    status, refused = await join(collector, secret, "web1\n000000000000  admin  root")
    assert (status, refused["field"]) == (400, "$.node")


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
    path, clock = tmp_path / "tokens.jsonl", Clock()
    secret = add(path, Scope.JOIN, "*", START + 1e9)
    async with running(settings(tokens=path), clock=clock) as running_collector:
        core = running_collector.core
        core.registry.apply(heartbeat(OTHER), START)
        core.registry.apply(report("web2"), START)
        clock.now += 3600  # both are down
        async with aiohttp.ClientSession() as http:
            client = Client(running_collector.address.url, http, clock)
            for node in ("web1", "web2"):
                status, refused = await join(client, secret, node)
                assert (status, refused["field"]) == (409, "$.node")
            clock.now += 1e6
            core.registry.drop_old(clock.now)
            assert core.registry.names() == []
            for node in ("web1", "web2"):
                assert (await join(client, secret, node))[0] == 409, (
                    "it is forgotten, but its name is not free"
                )
            assert (await join(client, secret, "web1", OTHER))[0] == 200, "the machine that had the name"
            assert (await join(client, secret, "web3"))[0] == 200


async def test_names_are_recorded_before_they_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tokens.jsonl"
    secret = add(path, Scope.READ, "reader")
    history = tmp_path / "history.db"
    async with running(settings(history, tokens=path), clock=Clock()) as collector:
        await collector.core.history.add([heartbeat(MACHINE)], START)
    monkeypatch.setattr(joining, "_NOTE_SECONDS", 0.01)
    async with running(settings(history, tokens=path), clock=Clock()):
        while len(tokens := read_tokens(path) or []) < 2:  # noqa: ASYNC110 - another thread writes the file
            await asyncio.sleep(0.01)
    assert (tokens[0].name, tokens[0].machine, tokens[0].sha256) == ("web1", MACHINE, None)
    assert Tokens(tokens).caller(secret.encode(), START) is not None


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
    assert f'[collector]\ntoken_file = "{file}"\nurl = "{collector.url}"\n' in text.replace("\n\n", "\n")
    assert text.startswith('node = "web1"\n# Settings\n\n[sampling]\n#interval_seconds = 3.0\n')
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
    after = with_settings(BEFORE, {("collector", "url"): "https://b", ("", "node"): "n"})
    changed = BEFORE.replace('#url = "http://a"', 'url = "https://b"').replace('#node = ""', 'node = "n"')
    assert after == changed


@pytest.mark.parametrize(
    "before",
    [
        "",
        "# ours\n[collector] # ours\nenabled = true # ours\n\n[spool]\n",
        '[ "collector" ] # ours\nurl = "a" # ours\n',
        'collector = {url = "a", enabled = true} # ours\n',
        "collector = {} # ours\n",
        'collector.url = "a" # ours\ncollector.enabled = true\n[spool]\n#url = ""\n',
        '[spool]\npath = """\n[collector]\nurl = 1\n""" # ours\n',
        "[collector.more] # ours\nurl = 1\n[[list]]\nnode = 1\n",
        "'node' = 'old' # ours\n[spool]\n",
    ],
)
def test_settings_are_set_in_every_form_of_toml(before: str) -> None:
    after = with_settings(before, {("collector", "url"): 'https://b"', ("", "node"): "n"})
    wanted = tomllib.loads(before)
    wanted["node"] = "n"
    wanted.setdefault("collector", {})["url"] = 'https://b"'
    assert tomllib.loads(after) == wanted
    assert after.count("# ours") >= before.count("# ours")


def test_settings_that_have_no_place_are_refused() -> None:
    with pytest.raises(UserError, match="by hand"):
        with_settings("[[collector]]\n", {("collector", "url"): "x"})


async def test_a_join_whose_answer_was_lost_is_completed_with_the_same_token(
    collector: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = add(tmp_path / "tokens.jsonl", Scope.JOIN, "*", START + 3600)
    file, config = tmp_path / "agent" / "token", tmp_path / "agent.toml"
    command = ["agent", "join", collector.url, secret, "--node", "web1", "--token-file", str(file)]
    command += ["--config", str(config)]
    config.touch()
    with monkeypatch.context() as killed:
        killed.setattr(agent_join, "replace_file", Mock(side_effect=SystemExit))
        with pytest.raises(SystemExit):
            await asyncio.to_thread(main, command)
    assert config.read_bytes() == b""
    for _ in range(2):  # and again, as a script does that runs on every start
        assert await asyncio.to_thread(main, command) == 0
    [*_, token] = read_tokens(tmp_path / "tokens.jsonl") or []
    assert token.sha256 == secret_hash(file.read_bytes().strip())
    assert [each.name for each in file.parent.iterdir()] == ["token"]


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

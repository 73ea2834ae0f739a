"""Who gets which peers and keys, and who gets none."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from collector.config import CollectorConfig
from collector.features.network.settings import MeshConfig
from collector.serve.web import tokens as token_file
from collector.serve.web.scopes import Scope
from collector.serve.web.tokens import edit_tokens, make_token
from tests.collector.builders import START, Client, collecting, report, settings
from wire.mesh import MeshAssignment, MeshReport, PeerResult
from wire.messages import encode

NODES = ("alpha", "beta", "gamma")


def with_mesh(config: CollectorConfig) -> CollectorConfig:
    return config.with_section(MeshConfig(enabled=True))


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, str]:
    found = {}
    with edit_tokens(tmp_path / "tokens.jsonl") as stored:
        for kind, name in (
            (Scope.ADMIN, "me"),
            (Scope.READ, "reader"),
            *((Scope.NODE, node) for node in NODES),
        ):
            token, found[name] = make_token(kind, name, START)
            stored.append(token)
    return found


@pytest.fixture
async def collector(
    tmp_path: Path, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Client]:
    monkeypatch.setattr(token_file, "_CHECK_SECONDS", 0.0)
    assert tokens
    async with collecting(with_mesh(settings(tokens=tmp_path / "tokens.jsonl"))) as client:
        yield client


async def ask(collector: Client, secret: str, node: str, **fields: Any) -> tuple[int, Any]:
    message = MeshReport(node=node, **({"session": 7, "port": 9641} | fields))
    headers = {"Authorization": f"Bearer {secret}"}
    return await collector.post(encode(message), "/v1/mesh", headers)


async def peers(collector: Client, secret: str, node: str, count: int, **fields: Any) -> MeshAssignment:
    """The assignment of a node once it has so many peers."""
    version = 0
    async with asyncio.timeout(20):
        while True:
            status, answer = await ask(collector, secret, node, version=version, wait_seconds=5.0, **fields)
            assert status == 200, answer
            found = msgspec.convert(answer, MeshAssignment, builtin_types=())
            if found.peers is not None and len(found.peers) == count:
                return found
            version = found.version


async def test_a_pair_shares_a_key_that_no_other_node_gets(collector: Client, tokens: dict[str, str]) -> None:
    found = await asyncio.gather(
        *(
            peers(collector, tokens[node], node, 2, session=place + 1, port=9000 + place)
            for place, node in enumerate(NODES)
        )
    )
    keys = {
        (node, peer.node): peer.key
        for node, assignment in zip(NODES, found, strict=True)
        for peer in assignment.peers or ()
    }
    assert len(keys) == 6
    assert len(set(keys.values())) == 3
    assert all(keys[node, peer] == keys[peer, node] for node, peer in keys)
    [beta] = [each for each in found[0].peers or () if each.node == "beta"]
    assert (beta.session, beta.host, beta.port) == (2, "127.0.0.1", 9001)


async def test_a_token_gets_the_peers_of_its_own_node_only(collector: Client, tokens: dict[str, str]) -> None:
    for secret in (tokens["beta"], tokens["reader"]):
        status, answer = await ask(collector, secret, "alpha")
        assert status == 403, answer
    status, _ = await ask(collector, "none", "alpha")
    assert status == 401
    headers = {"Authorization": f"Bearer {tokens['alpha']}"}
    for path in ("/v1/network", "/v1/network/alpha"):
        assert (await collector.ask(path, **headers))[0] == 403


async def test_an_answer_waits_until_the_peers_change(collector: Client, tokens: dict[str, str]) -> None:
    first = await peers(collector, tokens["alpha"], "alpha", 0)
    waiting = asyncio.create_task(
        ask(collector, tokens["alpha"], "alpha", version=first.version, wait_seconds=40.0)
    )
    await peers(collector, tokens["beta"], "beta", 1)
    status, answer = await asyncio.wait_for(waiting, 20)
    assert status == 200
    assert [peer["node"] for peer in answer["peers"]] == ["beta"]
    status, answer = await ask(collector, tokens["alpha"], "alpha", version=answer["version"])
    assert (status, "peers" in answer) == (200, False)


async def test_results_of_a_node_are_about_itself_only(collector: Client, tokens: dict[str, str]) -> None:
    headers = {"Authorization": f"Bearer {tokens['me']}"}
    for node in NODES:
        await collector.post(encode([report(node)]), headers=headers)
        await ask(
            collector,
            tokens[node],
            node,
            results=[PeerResult(peer, 0.02, 0.03, 5, 0) for peer in NODES if peer != node],
        )
    lies = [PeerResult("beta", 0.0, 0.0, 5, 0), PeerResult("gamma", 5.0, 5.0, 5, 0)]
    await ask(collector, tokens["alpha"], "alpha", results=lies)
    async with asyncio.timeout(20):
        while True:
            status, answer = await collector.ask("/v1/network", **headers)
            assert status == 200
            if answer["p50_seconds"][0][2] == 5.0:
                break
            await asyncio.sleep(0.02)
    order = [each["name"] for each in answer["nodes"]]
    table = {
        (one, other): answer["p50_seconds"][order.index(one)][order.index(other)]
        for one in NODES
        for other in NODES
    }
    assert table["alpha", "beta"] == 0.02
    assert table["beta", "gamma"] == 0.02
    _, answer = await collector.ask("/v1/network/alpha", **headers)
    assert answer["round_trips"] == [
        {"peer": "beta", "kind": "measured", "p50_seconds": 0.02, "p95_seconds": 0.03, "lost_ratio": 0.0},
        {"peer": "gamma", "kind": "measured", "p50_seconds": 5.0, "p95_seconds": 5.0, "lost_ratio": 0.0},
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"session": 0},
        {"port": 0},
        {"host": "evil.example"},
        {"host": "224.0.0.1"},
        {"host": "ff02::1"},
        {"host": "::ffff:239.1.2.3"},
        {"host": "0.0.0.0"},
        {"host": "255.255.255.255"},
        {"results": [PeerResult("beta", -1.0, None, 1, 0)]},
        {"results": [PeerResult("beta", 6.0, None, 1, 0)]},
        {"results": [PeerResult("x" * 254, 1.0, None, 1, 0)]},
        {"results": [PeerResult(f"node{number}", 1.0, None, 1, 0) for number in range(253)]},
        {"wait_seconds": 100.0},
    ],
)
async def test_an_invalid_request_is_refused(
    collector: Client, tokens: dict[str, str], fields: dict[str, Any]
) -> None:
    status, answer = await ask(collector, tokens["alpha"], "alpha", **fields)
    assert status == 400, answer


async def test_an_agent_that_changes_too_often_has_to_wait(collector: Client, tokens: dict[str, str]) -> None:
    statuses = [(await ask(collector, tokens["alpha"], "alpha", session=each))[0] for each in range(1, 8)]
    assert statuses == [200] * 5 + [429] * 2


async def test_a_collector_without_mesh_says_which_setting_is_missing() -> None:
    async with collecting(settings()) as collector:
        await collector.send(report())
        status, problem = await ask(collector, "", "alpha")
        assert status == 409
        assert "set mesh.enabled" in problem["detail"]
        status, answer = await collector.ask("/v1/network")
        assert (status, answer["enabled"], answer["kinds"]) == (200, False, [])
        assert (await collector.ask("/v1/network/nowhere"))[0] == 404

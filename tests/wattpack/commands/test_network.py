import json
from collections.abc import AsyncIterator
from http import HTTPStatus

import msgspec
import pytest

from collector.features.network.settings import MeshConfig
from tests.collector.builders import Client, collecting, report, settings
from tests.wattpack.commands.test_hint import complained, printed
from wire.mesh import MeshReport, PeerResult
from wire.messages import encode

pytestmark = pytest.mark.slow

NODES = ("far", "near1", "near2")
SECONDS = {frozenset(("near1", "near2")): 0.0004, frozenset(("near1", "far")): 0.0853}


@pytest.fixture
async def collector() -> AsyncIterator[Client]:
    config = settings().with_section(MeshConfig(enabled=True))
    async with collecting(config) as client:
        for node in NODES:
            await client.send(report(node))
            results = tuple(
                PeerResult(peer, seconds, 2 * seconds, 9, 1)
                for peer in NODES
                if (seconds := SECONDS.get(frozenset((node, peer)))) is not None
            )
            if node == "far":
                results = tuple(msgspec.structs.replace(each, p50_seconds=0.12) for each in results)
            message = MeshReport(
                node=node, session=1, port=9641, version=1, wait_seconds=5.0, results=results
            )
            status, answer = await client.post(encode(message), "/v1/mesh")
            assert status == HTTPStatus.OK, answer
        yield client


async def test_times_are_a_table_and_near_nodes_are_clusters(
    collector: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (await printed(collector, capsys, "network")).splitlines()
    assert lines == [
        "3 nodes in 2 clusters of near nodes. Median round-trip times over five minutes, in milliseconds:",
        "",
        "       far  near1  near2",
        "far      -    120      ?",
        "near1  120      -   0.40",
        "near2    ?   0.40      -",
        "",
        "cluster 1: far",
        "cluster 2: near1, near2",
        "? unknown: check that mesh.enabled is set on both nodes and UDP passes",
    ]


async def test_the_times_of_one_node_have_their_loss(
    collector: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (await printed(collector, capsys, "network", "--node", "near1")).splitlines()
    assert lines == [
        "PEER       KIND  P50 MS  P95 MS  LOST",
        "near2  measured    0.40    0.80   10%",
        "far    measured     120     171   10%",
    ]
    assert "no node is named 'nowhere': 'wattpack nodes'" in await complained(
        collector, capsys, "network", "--node", "nowhere"
    )


async def test_json_has_everything(collector: Client, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(await printed(collector, capsys, "network", "--json"))
    assert [node["name"] for node in found["nodes"]] == list(NODES)
    assert found["kinds"][0] == ["measured", "measured", "unknown"]
    assert found["p50_seconds"][0] == [0.0, 0.12, None]


async def test_without_a_mesh_the_setting_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    async with collecting(settings()) as client:
        await client.send(report("alpha"))
        assert "Set mesh.enabled" in await printed(client, capsys, "network")
        assert "Set mesh.enabled" in await printed(client, capsys, "network", "--node", "alpha")

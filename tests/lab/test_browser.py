import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from collector.config import MeshConfig
from collector.main import running
from tests.collector.builders import report, settings
from tests.lab.browser import read_page
from tests.lab.waiting import eventually
from tests.processes import wattpack
from wire.mesh import PeerResult

pytestmark = pytest.mark.lab


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[str]:
    up = wattpack(
        "up",
        "--data",
        str(tmp_path / "data"),
        *("--set", "collector.http.listen=127.0.0.1:0", "--set", "agent.http.listen=127.0.0.1:0"),
    )
    with up.running() as process:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"^  collector http://(\S+)", line):
                yield found[1]
                return


def test_page_answers_with_credentials_in_its_url(collector: str, tmp_path: Path) -> None:
    def page() -> str:
        return read_page(f"http://anyone:secret@{collector}/", tmp_path / "profile")

    eventually(lambda: "Nodes (1 of 1 up)" in page(), 60)


async def test_the_network_is_a_heat_map_while_there_is_a_mesh(tmp_path: Path) -> None:
    seconds = {("a1", "a2"): 0.001, ("a1", "b1"): 0.1, ("a2", "b1"): 0.1}
    for is_enabled in (True, False):
        config = msgspec.structs.replace(settings(), mesh=MeshConfig(enabled=is_enabled))
        async with running(config) as collector:
            for node in ("a1", "a2", "b1"):
                collector.core.registry.apply(report(node), collector.core.clock())
            for (node, peer), each in seconds.items():
                collector.core.registry.mesh.put_results(
                    node, [PeerResult(peer, each, each, 5, 0)], collector.core.clock()
                )
            await collector.core.registry.mesh.update(collector.core.clock())
            page = await asyncio.to_thread(
                read_page, collector.address.url, tmp_path / f"profile-{is_enabled}"
            )
        assert ("Network (2 clusters of near nodes)" in page) is is_enabled
        assert ("b1: 100 ms, measured" in page) is is_enabled

"""Sizes, asked of a running collector."""

from pathlib import Path

from tests.collector.builders import START, Clock, collecting, settings
from tests.collector.runtime.test_analysis import HUNGRY, heartbeat


async def test_sizes_are_there_after_a_restart(tmp_path: Path) -> None:
    config = settings(tmp_path / "history.db")
    clock = Clock()
    async with collecting(config, clock) as collector:
        await collector.send(heartbeat("alpha", 1, START, {"web-1": ("shop/web", HUNGRY)}, 300))
    async with collecting(config, clock) as collector:
        while True:
            status, found = await collector.ask("/v1/sizes")
            assert status == 200
            if found["computed_at"]:
                break
        assert [each["service"] for each in found["sizes"]] == ["shop/web"]
        status, one = await collector.ask("/v1/sizes?service=shop/web")
        assert status == 200
        assert one == found
        assert one["sizes"][0]["cpu"]["request"] > 1.9
        status, problem = await collector.ask("/v1/sizes?service=other")
        assert status == 404
        assert "GET /v1/sizes" in problem["detail"]

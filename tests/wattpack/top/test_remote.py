from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.wattpack.top.scenes import alert, container, node
from wattpack.top.scene import Scene, remote_scenes
from wire.errors import UserError

OFTEN = 0.01


class Collector:
    """Answers as listed."""

    def __init__(self) -> None:
        self.status = 200
        self.nodes = msgspec.json.encode({"nodes": [node()]})

    async def answer(self, request: web.Request) -> web.Response:
        if request.path == "/v1/nodes":
            body = self.nodes
        elif request.path == "/v1/containers":
            body = msgspec.json.encode({"containers": [container("web")]})
        else:
            assert request.path_qs == "/v1/alerts?limit=1000&state=open&kind=node"
            body = msgspec.json.encode({"alerts": [alert()]})
        return web.Response(body=body, status=self.status, content_type="application/json")


@asynccontextmanager
async def answering(collector: Collector) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/v1/{what}", collector.answer)
    async with TestServer(app) as server:
        yield str(server.make_url("/"))


async def first(scenes: AsyncGenerator[Scene, None]) -> Scene:
    async with aclosing(scenes):
        return await anext(scenes)


async def test_scene_has_the_collectors_data() -> None:
    async with answering(Collector()) as url:
        seen = await first(remote_scenes(url, OFTEN))
    assert (seen.nodes, seen.containers, seen.alerts) == ((node(),), (container("web"),), (alert(),))
    assert seen.problem is None


async def test_unknown_fields_are_ignored() -> None:
    collector = Collector()
    collector.nodes = b'{"nodes": [{"name": "web1", "invented_later": 1}], "total": 1}'
    async with answering(collector) as url:
        assert [each.name for each in (await first(remote_scenes(url, OFTEN))).nodes] == ["web1"]


async def test_unreachable_collector_is_a_user_error() -> None:
    async with answering(Collector()) as url:
        pass
    with pytest.raises(
        UserError, match=r"the collector at http://\S+ does not answer .*check that it is running"
    ):
        await first(remote_scenes(url, OFTEN))


async def test_invalid_answer_is_a_user_error() -> None:
    collector = Collector()
    collector.nodes = b"<html>"
    async with answering(collector) as url:
        with pytest.raises(UserError, match="sends an invalid response to /v1/nodes"):
            await first(remote_scenes(url, OFTEN))


async def test_failing_collector_keeps_the_last_scene_with_the_problem() -> None:
    collector = Collector()
    async with answering(collector) as url, aclosing(remote_scenes(url, OFTEN)) as scenes:
        before = await anext(scenes)
        collector.status = 503
        stale = await anext(scenes)
        assert stale.problem is not None
        assert stale.problem.endswith("answers 503 to /v1/nodes")
        assert (stale.at, stale.containers) == (before.at, before.containers)
        collector.status = 200
        assert (await anext(scenes)).problem is None

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.wattpack.top.scenes import alert, container, node
from wattpack.top.scene import Scene
from wattpack.top.there import scenes_there
from wire.errors import UserError

OFTEN = 0.01


class Collector:
    """Answers as told."""

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


async def test_a_scene_is_what_the_collector_tells() -> None:
    async with answering(Collector()) as url:
        seen = await first(scenes_there(url, OFTEN))
    assert (seen.nodes, seen.containers, seen.alerts) == ((node(),), (container("web"),), (alert(),))
    assert seen.trouble is None


async def test_a_field_of_a_newer_collector_is_passed_over() -> None:
    collector = Collector()
    collector.nodes = b'{"nodes": [{"name": "web1", "invented_later": 1}], "total": 1}'
    async with answering(collector) as url:
        assert [each.name for each in (await first(scenes_there(url, OFTEN))).nodes] == ["web1"]


async def test_a_collector_that_is_not_there_is_one_sentence() -> None:
    async with answering(Collector()) as url:
        pass
    with pytest.raises(UserError, match=r"the collector at http://\S+ does not answer .*is it running"):
        await first(scenes_there(url, OFTEN))


async def test_something_else_at_that_address_is_one_sentence() -> None:
    collector = Collector()
    collector.nodes = b"<html>"
    async with answering(collector) as url:
        with pytest.raises(UserError, match="answers something else to /v1/nodes"):
            await first(scenes_there(url, OFTEN))


async def test_when_it_fails_later_the_last_scene_stays_with_the_reason_until_it_is_back() -> None:
    collector = Collector()
    async with answering(collector) as url, aclosing(scenes_there(url, OFTEN)) as scenes:
        before = await anext(scenes)
        collector.status = 503
        stale = await anext(scenes)
        assert stale.trouble is not None
        assert stale.trouble.endswith("answers 503 to /v1/nodes")
        assert (stale.at, stale.containers) == (before.at, before.containers)
        collector.status = 200
        assert (await anext(scenes)).trouble is None

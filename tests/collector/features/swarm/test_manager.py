from pathlib import Path
from typing import Any

from aiohttp import web

from collector.act.drivers.engine.client import connect
from collector.config import DriverConfig as Settings
from collector.features.swarm.client import Manager
from tests.collector.act.drivers.engine.test_client import listening


async def test_after_a_conflict_the_object_is_read_again_and_other_changes_are_kept(
    tmp_path: Path,
) -> None:
    spec: dict[str, Any] = {"Name": "web", "Labels": {}}
    index, theirs = 7, False

    async def service(_: web.Request) -> web.Response:
        return web.json_response({"ID": "web", "Version": {"Index": index}, "Spec": spec})

    async def update(request: web.Request) -> web.Response:
        nonlocal index, spec, theirs
        if not theirs:
            theirs, index, spec = True, index + 1, {**spec, "Labels": {"theirs": "1"}}
        if int(request.query["version"]) != index:
            return web.json_response({"message": "rpc error: update out of sequence"}, status=500)
        spec = await request.json()
        return web.Response()

    async with (
        listening(tmp_path / "it", services_web=service, services_web_update=update) as address,
        connect([address], Settings()) as engine,
    ):
        await Manager(engine).change_service("web", lambda now: {**now, "Mode": "ours"})
    assert spec == {"Name": "web", "Labels": {"theirs": "1"}, "Mode": "ours"}

"""The conversation with engines that fail, which real ones do not do when asked to."""

import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from collector.act.drivers.engine.client import connect
from collector.act.drivers.interface import DriverError, RefusedError
from collector.config import DriverConfig as Settings
from tests.certificates import Authority
from wire.address import Address
from wire.errors import UserError
from wire.http.serving import serving

pytest.importorskip("docker", reason="the extra docker is not installed: run ./dev setup")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def listening(path: Path, **routes: Handler) -> AsyncIterator[str]:
    """An engine that answers `/name` by the handler of that name; gives its address."""
    app = web.Application()
    for name, handler in routes.items():
        app.router.add_route("*", f"/{name.replace('_', '/')}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.UnixSite(runner, str(path)).start()
        yield f"unix://{path}"
    finally:
        await runner.cleanup()


async def well(_: web.Request) -> web.Response:
    return web.json_response({"said": "yes"})


async def no_manager(_: web.Request) -> web.Response:
    return web.json_response({"message": "This node is not a swarm manager."}, status=503)


async def test_the_next_address_is_used_if_one_does_not_answer_or_is_no_manager(tmp_path: Path) -> None:
    asked = []

    async def noted(request: web.Request) -> web.Response:
        asked.append(request.method)
        return await no_manager(request)

    async with (
        listening(tmp_path / "worker", info=noted) as worker,
        listening(tmp_path / "manager", info=well) as manager,
        connect([f"unix://{tmp_path}/nowhere", worker, manager], Settings()) as engine,
    ):
        assert await engine.get("/info", dict[str, str]) == {"said": "yes"}
        await engine.post("/info")
        assert asked == ["GET"], "the one that answered is asked first from then on"


async def test_a_change_goes_to_the_next_address_if_the_name_of_one_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request to a host that was not found cannot have been carried out."""

    def unknown(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    async with (
        listening(tmp_path / "manager", info=well) as manager,
        connect(["tcp://manager.invalid:2376", manager], Settings()) as engine,
    ):
        await engine.post("/info")


async def test_without_any_answer_every_address_is_named(tmp_path: Path) -> None:
    async with (
        listening(tmp_path / "worker", info=no_manager) as worker,
        connect([f"unix://{tmp_path}/nowhere", worker], Settings()) as engine,
    ):
        with pytest.raises(
            DriverError,
            match=r"nowhere: no such file or directory; .*worker: This node is not a swarm manager",
        ):
            await engine.get("/info", dict[str, str])


async def test_request_that_may_have_arrived_is_not_sent_to_another_address(tmp_path: Path) -> None:
    asked = []

    async def lost(request: web.Request) -> web.Response:
        asked.append(request.path)
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    async with (
        listening(tmp_path / "one", order=lost) as one,
        listening(tmp_path / "two", order=lost) as two,
        connect([one, two], Settings()) as engine,
    ):
        with pytest.raises(DriverError, match=r"the Docker engine at unix:.*one stopped answering"):
            await engine.post("/order")
    assert asked == ["/order"]


@pytest.mark.parametrize(
    "body", [b'{"said": "\xff"}', b'{"said": ' + b"[" * 100_000, b"[" * 100_000, b"", b"\xff"]
)
@pytest.mark.parametrize("status", [200, 404])
async def test_an_invalid_response_is_a_driver_error(tmp_path: Path, body: bytes, status: int) -> None:
    async def garbled(_: web.Request) -> web.Response:
        return web.Response(body=body, status=status)

    async with listening(tmp_path / "it", info=garbled) as address, connect([address], Settings()) as engine:
        with pytest.raises(DriverError):
            await engine.get("/info", list[Any] if body.startswith(b"[") else dict[str, Any])


async def test_an_endless_response_is_not_read_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collector.act.drivers.engine.client._MAX_BYTES", 1 << 20)

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"[" * (1 << 16))

    async with listening(tmp_path / "it", info=endless) as address, connect([address], Settings()) as engine:
        with pytest.raises(DriverError, match="its response is larger than 1 MiB"):
            await engine.get("/info", list[Any])


async def test_refusal_of_the_engine_keeps_its_message(tmp_path: Path) -> None:
    async def refused(_: web.Request) -> web.Response:
        return web.json_response({"message": "no such thing"}, status=404)

    async with listening(tmp_path / "it", thing=refused) as address, connect([address], Settings()) as engine:
        with pytest.raises(RefusedError, match="no such thing"):
            await engine.get("/thing", dict[str, str])
        with pytest.raises(DriverError, match="invalid response of the Docker engine"):
            async with (
                listening(tmp_path / "other", thing=well) as other,
                connect([other], Settings()) as odd,
            ):
                await odd.get("/thing", list[int])


async def test_requests_use_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server, client = authority.issue("server"), authority.issue("client")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.certificate)
    tls.load_cert_chain(server.certificate, server.key)
    tls.verify_mode = ssl.CERT_REQUIRED
    app = web.Application()
    app.router.add_get("/info", well)
    for name, file in (("ca", authority.certificate), ("cert", client.certificate), ("key", client.key)):
        (tmp_path / f"{name}.pem").write_bytes(file.read_bytes())
    settings = Settings(certificates=str(tmp_path))
    async with serving(app, Address("127.0.0.1", 0), "engine", tls=tls) as at:
        async with connect([f"tcp://{at}"], settings) as engine:
            assert await engine.get("/info", dict[str, str]) == {"said": "yes"}
        async with connect([f"tcp://{at}"], Settings()) as plain:
            with pytest.raises(DriverError):
                await plain.get("/info", dict[str, str])


@pytest.mark.parametrize("address", ["", "/var/run/docker.sock", "unix://", "tcp://host", "http://host:1"])
async def test_invalid_address_is_a_user_error_at_once(address: str) -> None:
    with pytest.raises(UserError, match="is not an address of a Docker engine"):
        async with connect([address], Settings()):
            pass


async def test_unusable_certificates_are_a_user_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"check ca\.pem, cert\.pem and key\.pem in "):
        async with connect(["tcp://127.0.0.1:1"], Settings(certificates=str(tmp_path / "none"))):
            pass

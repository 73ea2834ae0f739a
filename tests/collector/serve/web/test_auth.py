"""Who gets in, over real connections."""

import asyncio
import base64
import logging
import resource
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec
import pytest

from collector.config import AccessConfig, CollectorConfig, LimitsConfig, TlsConfig
from collector.serve.api.table import ROUTES
from collector.serve.web.auth import certificate_names
from collector.serve.web.scopes import Scope
from collector.serve.web.tokens import edit_tokens, make_token
from tests.certificates import Authority, trusting
from tests.collector.builders import JSON, START, Client, Clock, altered, collecting, report, settings
from wire.http.connections import ConnectionLimits
from wire.messages import encode


@dataclass
class Guarded:
    """A collector with one token of each kind."""

    client: Client
    node: str
    read: str
    admin: str

    async def ask(self, path: str, token: str | None, method: str = "GET", **options: Any) -> int:
        headers = options.pop("headers", {}) | ({"Authorization": f"Bearer {token}"} if token else {})
        async with self.client.http.request(
            method, self.client.url + path, headers=headers, **options
        ) as answer:
            await answer.read()
            return answer.status

    async def report(self, token: str | None, *nodes: str) -> int:
        body = encode([report(node) for node in nodes])
        return await self.ask("/v1/reports", token, "POST", data=body, headers=dict(JSON))


@asynccontextmanager
async def guarding(tmp_path: Path, config: CollectorConfig | None = None) -> AsyncIterator[Guarded]:
    path = tmp_path / "tokens.jsonl"
    secrets = [add(path, kind, "alpha") for kind in (Scope.NODE, Scope.READ, Scope.ADMIN)]
    async with collecting(config or settings(tokens=path)) as client:
        yield Guarded(client, *secrets)


def add(path: Path, kind: Scope, name: str, expires_at: float | None = None) -> str:
    token, secret = make_token(kind, name, START, expires_at)
    with edit_tokens(path) as tokens:
        tokens.append(token)
    return secret


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Guarded]:
    async with guarding(tmp_path) as guarded:
        yield guarded


async def test_all_routes_except_health_require_a_token(guarded: Guarded) -> None:
    for route in ROUTES:
        open_to_all = route.path in ("/healthz", "/readyz")
        status = await guarded.ask(route.path, None, route.method)
        assert (route.path, status) == (route.path, 200 if open_to_all else 401)
    for path in ("/nowhere", "/v1/nodes/../../etc"):
        assert await guarded.ask(path, None) == 401
    assert await guarded.ask("/v1/nodes", None, "DELETE") == 401


async def test_invalid_token_gets_a_challenge(guarded: Guarded) -> None:
    async with guarded.client.http.get(guarded.client.url + "/v1/nodes") as answer:
        assert answer.headers.getall("WWW-Authenticate") == [
            'Bearer realm="wattpack"',
            'Basic realm="wattpack", charset="UTF-8"',
        ]
        problem = msgspec.json.decode(await answer.read())
    assert (problem["status"], problem["field"]) == (401, "Authorization")
    for header in (
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        f"Basic {guarded.read}",
        f"Digest {guarded.read}",
        f"Bearer {guarded.read[:-1]}",
        f"Bearer {guarded.read} {guarded.read}",
    ):
        status, _ = await guarded.client.ask("/v1/nodes", Authorization=header)
        assert (header, status) == (header, 401)


async def test_read_token_reads_and_changes_nothing(guarded: Guarded) -> None:
    for path in ("/v1/nodes", "/metrics", "/", "/openapi.json"):
        assert (path, await guarded.ask(path, guarded.read)) == (path, 200)
    question = {"data": b'{"envelope": {"cpu_cores": 1}}', "headers": dict(JSON)}
    assert await guarded.ask("/v1/what-if", guarded.read, "POST", **question) == 200
    assert await guarded.report(guarded.read, "alpha") == 403


async def test_a_flood_of_connections_leaves_room_for_callers_with_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = ConnectionLimits(max_unauthenticated=8, max_total=12)
    monkeypatch.setattr(ConnectionLimits, "of_process", lambda **_: limits)
    async with guarding(tmp_path) as guarded, AsyncExitStack() as stack:
        address = urlsplit(guarded.client.url)
        assert await guarded.report(guarded.node, "alpha") == 200
        flood = []
        for _ in range(40):
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
            stack.callback(writer.close)
            flood.append(reader)
        async with asyncio.timeout(10):
            assert await flood[0].read() == b"", "the oldest is closed"
            assert await guarded.report(guarded.node, "alpha") == 200
            async with aiohttp.ClientSession() as other:
                headers = {"Authorization": f"Bearer {guarded.read}"}
                async with other.get(guarded.client.url + "/v1/nodes", headers=headers) as answer:
                    assert answer.status == 200
        assert limits.open <= 12


async def test_where_nobody_authenticates_callers_have_all_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (300, 300))
    async with collecting(settings(tmp_path / "history.db")) as collector, AsyncExitStack() as stack:
        address = urlsplit(collector.url)
        opened = []
        for _ in range(150):
            opened.append(await asyncio.open_connection(address.hostname, address.port))
            stack.callback(opened[-1][1].close)
        reader, writer = opened[0]
        writer.write(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(10):
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")


async def test_connections_of_one_token_are_limited(tmp_path: Path) -> None:
    async with guarding(tmp_path) as guarded, AsyncExitStack() as stack:
        headers = {"Authorization": f"Bearer {guarded.node}"} | JSON
        body = encode([report("alpha")])
        address = urlsplit(guarded.client.url)
        opened = []
        for _ in range(20):
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
            stack.callback(writer.close)
            head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            writer.write(f"POST /v1/reports HTTP/1.1\r\nHost: localhost\r\n{head}".encode())
            writer.write(f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            async with asyncio.timeout(10):
                assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            opened.append(reader)
        async with asyncio.timeout(10):
            for reader in opened[:4]:
                await reader.read()
                assert reader.at_eof()
        assert not opened[-1].at_eof()


async def test_every_body_counts_against_the_waiting_bytes(tmp_path: Path) -> None:
    config = msgspec.structs.replace(
        settings(tokens=tmp_path / "tokens.jsonl"), limits=altered(LimitsConfig(), max_waiting_bytes=1 << 20)
    )
    async with guarding(tmp_path, config) as guarded:
        address = urlsplit(guarded.client.url)
        _, writer = await asyncio.open_connection(address.hostname, address.port)
        head = (
            f"Host: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer {guarded.read}\r\n"
        )
        writer.write(f"POST /v1/hints/placement HTTP/1.1\r\n{head}Content-Length: 2000000\r\n\r\n".encode())
        writer.write(b" " * 900_000)
        await writer.drain()
        options = {"data": b'{"envelope": {"cpu_cores": 1}}' + b" " * 200_000, "headers": dict(JSON)}
        async with asyncio.timeout(10):
            while await guarded.ask("/v1/hints/placement", guarded.read, "POST", **options) != 429:
                await writer.drain()
            # The share of one token does not hold up the others.
            assert await guarded.report(guarded.node, "alpha") == 200
        writer.close()


async def test_token_as_basic_password(guarded: Guarded) -> None:
    basic = base64.b64encode(f"any:{guarded.read}".encode()).decode()
    async with guarded.client.http.get(
        guarded.client.url + "/", headers={"Authorization": f"Basic {basic}"}
    ) as page:
        assert (page.status, page.content_type) == (200, "text/html")


async def test_node_token_reports_for_its_node_and_reads_nothing(guarded: Guarded) -> None:
    assert await guarded.report(guarded.node, "alpha") == 200
    for path in ("/v1/nodes", "/metrics", "/", "/nowhere"):
        assert (path, await guarded.ask(path, guarded.node)) == (path, 403)


async def test_batch_with_a_report_of_another_node_is_rejected(guarded: Guarded) -> None:
    body = encode([report("alpha"), report("beta")])
    status, problem = await guarded.client.post(body, headers={"Authorization": f"Bearer {guarded.node}"})
    assert (status, problem["field"]) == (403, "$[1].node")
    status, known = await guarded.client.ask("/v1/nodes", Authorization=f"Bearer {guarded.admin}")
    assert (status, known["nodes"]) == (200, [])


async def test_admin_token_may_do_everything(guarded: Guarded) -> None:
    assert await guarded.report(guarded.admin, "alpha", "beta") == 200
    assert await guarded.ask("/v1/nodes", guarded.admin) == 200


async def test_a_token_expires(tmp_path: Path) -> None:
    path = tmp_path / "tokens.jsonl"
    secret, clock = add(path, Scope.READ, "guest", START + 60), Clock()
    async with collecting(settings(tokens=path), clock) as client:
        assert (await client.ask("/v1/nodes", Authorization=f"Bearer {secret}"))[0] == 200
        clock.now += 60
        assert (await client.ask("/v1/nodes", Authorization=f"Bearer {secret}"))[0] == 401


async def test_tokens_are_not_logged(guarded: Guarded, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for token in (guarded.node, guarded.read, guarded.admin, guarded.read[:-1]):
        await guarded.ask("/v1/nodes", token)
        await guarded.report(token, "alpha")
    for token in (guarded.node, guarded.read, guarded.admin):
        assert token[15:35] not in caplog.text


async def test_foreign_host_is_rejected_with_a_valid_token(guarded: Guarded) -> None:
    status, problem = await guarded.client.ask(
        "/v1/nodes", Host="evil.example", Authorization=f"Bearer {guarded.read}"
    )
    assert (status, problem["field"]) == (403, "Host")


def test_certificate_names() -> None:
    assert certificate_names(
        {
            "subject": ((("organizationName", "x"),), (("commonName", "alpha"),)),
            "subjectAltName": (("DNS", "alpha.example"), ("IP Address", "127.0.0.1"), ("URI", "spiffe://x")),
        }
    ) == {"alpha", "alpha.example"}
    assert certificate_names({}) == frozenset()


@pytest.mark.lab
async def test_tls_and_certificates_instead_of_tokens(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server, alpha = authority.issue("server"), authority.issue("alpha")
    (tmp_path / "elsewhere").mkdir()
    stranger = Authority(tmp_path / "elsewhere", "other").issue("alpha")
    tls = TlsConfig(
        certificate=str(server.certificate), key=str(server.key), client_ca=str(authority.certificate)
    )
    access = AccessConfig(tokens=str(tmp_path / "tokens.jsonl"), schedulers="system:kube-scheduler")
    config = msgspec.structs.replace(settings(tokens=tmp_path / "tokens.jsonl"), tls=tls, access=access)
    async with guarding(tmp_path, config) as guarded:
        assert guarded.client.url.startswith("https://")

        async def report_as(context: ssl.SSLContext, token: str | None, node: str) -> int:
            body, connector = encode([report(node)]), aiohttp.TCPConnector(ssl=context)
            headers = JSON | ({"Authorization": f"Bearer {token}"} if token else {})
            async with (
                aiohttp.ClientSession(connector=connector) as http,
                http.post(guarded.client.url + "/v1/reports", data=body, headers=headers) as answer,
            ):
                return answer.status

        async def place_as(context: ssl.SSLContext) -> int:
            connector = aiohttp.TCPConnector(ssl=context)
            question = encode({"reserve": {"cpu_cores": 1.0}, "reserve_seconds": 1.0})
            async with (
                aiohttp.ClientSession(connector=connector) as http,
                http.post(guarded.client.url + "/v1/hints/placement", data=question, headers=JSON) as answer,
            ):
                return answer.status

        assert await place_as(trusting(authority, authority.issue("system:kube-scheduler"))) == 200
        assert await place_as(trusting(authority, alpha)) == 403
        plain, shown = trusting(authority), trusting(authority, alpha)
        assert await report_as(plain, None, "alpha") == 401
        assert await report_as(plain, guarded.node, "alpha") == 200
        assert await report_as(shown, None, "alpha") == 200
        assert await report_as(shown, None, "beta") == 403
        assert await report_as(shown, "wrong", "alpha") == 401
        assert await report_as(shown, guarded.admin, "beta") == 200
        with pytest.raises(aiohttp.ClientError):
            await report_as(trusting(authority, stranger), None, "alpha")
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await report_as(ssl.create_default_context(), guarded.node, "alpha")

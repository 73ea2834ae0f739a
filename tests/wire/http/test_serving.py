"""A server behind a web configuration file, asked by real clients over real connections."""

import asyncio
import base64
import json
import logging
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import bcrypt
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry, Gauge

from tests.certificates import Authority, trusting
from tests.lab.stores.prometheus import prometheus, promtool_check_web_config
from wire.address import parse_address
from wire.errors import UserError
from wire.http.serving import metrics_handler, serving

pytestmark = pytest.mark.lab

HASH = bcrypt.hashpw(b"wonder", bcrypt.gensalt(4)).decode()
TLS = {"cert_file": "server.crt", "key_file": "server.key"}
MUTUAL = {**TLS, "client_auth_type": "RequireAndVerifyClientCert", "client_ca_file": "authority.crt"}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    authority = Authority(tmp_path)
    authority.issue("server")
    return authority


@dataclass(frozen=True, slots=True)
class Served:
    """What is served, to be asked once per connection."""

    url: str

    async def get(
        self, client: ssl.SSLContext | None = None, *, path: str = "/metrics", credentials: str = ""
    ) -> tuple[int, Mapping[str, str]]:
        encoded = base64.b64encode(credentials.encode()).decode()
        headers = {"Authorization": f"Basic {encoded}"} if credentials else {}
        async with (
            aiohttp.ClientSession() as http,
            http.get(self.url + path, ssl=client or True, headers=headers) as answer,
        ):
            return answer.status, answer.headers


@asynccontextmanager
async def served(folder: Path, content: dict[str, Any]) -> AsyncIterator[Served]:
    file = folder / "web.yml"
    file.write_text(json.dumps(content))
    app = web.Application()
    registry = CollectorRegistry()
    Gauge("node_watts", "A gauge.", registry=registry).set(42.5)
    app.router.add_get("/metrics", metrics_handler(registry))
    async with serving(app, parse_address("127.0.0.1:0"), "http.listen", str(file)) as address:
        yield Served(address.url)


async def test_tls_by_a_certificate_that_clients_verify(tmp_path: Path, authority: Authority) -> None:
    async with served(tmp_path, {"tls_server_config": TLS}) as server:
        assert server.url.startswith("https://")
        assert (await server.get(trusting(authority)))[0] == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await server.get(ssl.create_default_context())
        with pytest.raises(aiohttp.ClientError):
            await Served(server.url.replace("https", "http")).get()


async def test_mutual_tls_lets_in_only_who_shows_a_certificate_of_the_authority(
    tmp_path: Path, authority: Authority
) -> None:
    (tmp_path / "other").mkdir()
    stranger = Authority(tmp_path / "other").issue("stranger")
    async with served(tmp_path, {"tls_server_config": MUTUAL}) as server:
        assert (await server.get(trusting(authority, authority.issue("client"))))[0] == 200
        for refused in (trusting(authority), trusting(authority, stranger)):
            with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
                await server.get(refused)


async def test_a_certificate_if_given_is_verified(tmp_path: Path, authority: Authority) -> None:
    (tmp_path / "other").mkdir()
    stranger = Authority(tmp_path / "other").issue("stranger")
    optional = {**MUTUAL, "client_auth_type": "VerifyClientCertIfGiven"}
    async with served(tmp_path, {"tls_server_config": optional}) as server:
        assert (await server.get(trusting(authority)))[0] == 200
        with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
            await server.get(trusting(authority, stranger))


async def test_the_lowest_version_is_that_of_the_file(tmp_path: Path, authority: Authority) -> None:
    client = trusting(authority)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    async with served(tmp_path, {"tls_server_config": TLS}) as server:
        assert (await server.get(client))[0] == 200
    async with served(tmp_path, {"tls_server_config": {**TLS, "min_version": "TLS13"}}) as server:
        with pytest.raises(aiohttp.ClientError):
            await server.get(client)


async def test_a_renewed_certificate_is_used_from_the_next_connection_on(
    tmp_path: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with served(tmp_path, {"tls_server_config": MUTUAL}) as server:
        before = trusting(authority, authority.issue("client"))
        assert (await server.get(before))[0] == 200

        # Half of a renewal: the key does not fit the certificate yet, so nothing changes.
        fitting = (tmp_path / "server.key").read_bytes()
        (tmp_path / "server.key").write_bytes((tmp_path / "client.key").read_bytes())
        assert (await server.get(before))[0] == 200
        assert (await server.get(before))[0] == 200
        [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert warning.startswith(f"keeping the previous certificate: {tmp_path}/server.crt and ")
        (tmp_path / "server.key").write_bytes(fitting)

        # Everything is renewed by another authority: clients of the old one are rejected, on both sides.
        renewed = Authority(tmp_path)
        renewed.issue("server")
        assert (await server.get(trusting(renewed, renewed.issue("client"))))[0] == 200
        assert f"loaded the new certificate {tmp_path}/server.crt" in caplog.messages
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await server.get(before)


async def test_basic_authentication_guards_every_path(tmp_path: Path) -> None:
    async with served(tmp_path, {"basic_auth_users": {"alice": HASH}}) as server:
        assert server.url.startswith("http://")
        assert (await server.get(credentials="alice:wonder"))[0] == 200
        for credentials in ("", "alice:wrong", "bob:wonder", "alice"):
            for path in ("/metrics", "/absent"):
                status, headers = await server.get(path=path, credentials=credentials)
                assert (status, headers["WWW-Authenticate"]) == (
                    401,
                    'Basic realm="wattpack", charset="UTF-8"',
                )


@pytest.mark.parametrize(
    ("tls", "complaint"),
    [
        ({**TLS, "cert_file": "absent.crt"}, r"cannot read .*/absent.crt \(no such file or directory\)"),
        ({**TLS, "key_file": "authority.key"}, "authority.key are not a PEM certificate and its key"),
        ({**TLS, "cert_file": "web.yml"}, "server.key are not a PEM certificate and its key"),
        ({**MUTUAL, "client_ca_file": "server.key"}, "server.key is not a PEM certificate"),
        ({**TLS, "key_file": "locked.key"}, "is encrypted: store it without a password"),
    ],
)
async def test_files_that_do_not_serve_are_one_sentence(
    tmp_path: Path, authority: Authority, tls: dict[str, str], complaint: str
) -> None:
    authority.lock("server", "locked")
    with pytest.raises(UserError, match=complaint):
        async with served(tmp_path, {"tls_server_config": tls}):
            pass


async def test_a_real_prometheus_scrapes_with_its_own_file_format(
    tmp_path: Path, authority: Authority
) -> None:
    content = {"tls_server_config": TLS, "basic_auth_users": {"alice": HASH}}
    job = {
        "scheme": "https",
        "tls_config": {"ca_file": str(authority.certificate)},
        "basic_auth": {"username": "alice", "password": "wonder"},
    }

    def scrape(target: str) -> list[float]:
        with prometheus({"node": target}, job_settings=job) as server:
            server.wait_until_up("node")
            return [value for _, value in server.query("node_watts")]

    async with served(tmp_path, content) as server:
        assert promtool_check_web_config(tmp_path / "web.yml") == ""
        assert await asyncio.to_thread(scrape, server.url.removeprefix("https://")) == [42.5]

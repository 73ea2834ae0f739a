from pathlib import Path

import aiohttp
import msgspec
import pytest

from collector.config import TlsConfig
from collector.serve.web.scopes import Scope
from tests.certificates import Authority
from tests.collector.builders import collecting, settings
from tests.collector.serve.web.test_auth import add
from wattpack.client.collector import Collector, UnavailableError, open_session
from wire.errors import UserError

PATIENCE = aiohttp.ClientTimeout(total=10)


async def status_of(url: str, environment: dict[str, str]) -> int:
    async with open_session(PATIENCE, environment) as session, session.get(url + "/v1/nodes") as answer:
        return answer.status


async def test_token_from_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "tokens.jsonl"
    reads, reports = add(path, Scope.READ, "me"), add(path, Scope.NODE, "alpha")
    async with collecting(settings(tokens=path)) as client:
        assert await status_of(client.url, {"WATTPACK_TOKEN": f"{reads}\n"}) == 200
        for environment, expected in (
            ({"WATTPACK_TOKEN": reports}, "answers 403: this request needs a token of kind read"),
            ({"WATTPACK_TOKEN": "wrong"}, "does not accept the token: it is unknown, revoked or expired"),
            (
                {},
                "requires a token: create .* and give it with --token-file FILE or WATTPACK_TOKEN",
            ),
        ):
            with pytest.raises(UserError, match=expected) as caught:
                await nodes_of(client.url, environment)
            assert "is running" not in str(caught.value)


async def nodes_of(url: str, environment: dict[str, str]) -> None:
    async with open_session(PATIENCE, environment) as session:
        await Collector(session, url).get("/v1/nodes")


@pytest.mark.lab
async def test_certificate_errors_name_what_to_change(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = authority.issue("server")
    tls = TlsConfig(certificate=str(server.certificate), key=str(server.key))
    async with collecting(msgspec.structs.replace(settings(), tls=tls)) as client:
        with pytest.raises(UserError, match=r"is not trusted \(.*--ca-file FILE or WATTPACK_CA_FILE"):
            await nodes_of(client.url, {})
        other_name = client.url.replace("127.0.0.1", "127.0.0.2")
        trusted = {"WATTPACK_CA_FILE": str(authority.certificate)}
        with pytest.raises((UserError, UnavailableError)):
            await nodes_of(other_name, trusted)
        with pytest.raises(UnavailableError, match="its address begins with https://"):
            await nodes_of(client.url.replace("https", "http"), trusted)
    async with collecting(settings()) as client:
        with pytest.raises(UserError, match=r"does not use TLS: use http://"):
            await nodes_of(client.url.replace("http", "https"), trusted)


@pytest.mark.lab
async def test_ca_file_from_the_environment(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = authority.issue("server")
    tls = TlsConfig(certificate=str(server.certificate), key=str(server.key))
    async with collecting(msgspec.structs.replace(settings(), tls=tls)) as client:
        assert await status_of(client.url, {"WATTPACK_CA_FILE": str(authority.certificate)}) == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await status_of(client.url, {})


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"WATTPACK_TOKEN": "two words"}, "is not a token"),
        ({"WATTPACK_TOKEN": "ä"}, "is not a token"),
        ({"WATTPACK_CA_FILE": "/none"}, "cannot read certificates from /none"),
        ({"WATTPACK_CA_FILE": __file__}, "not PEM"),
    ],
)
async def test_invalid_environment_is_a_user_error(environment: dict[str, str], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        open_session(PATIENCE, environment)

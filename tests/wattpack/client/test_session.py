from pathlib import Path

import aiohttp
import msgspec
import pytest

from collector.config import TlsConfig
from collector.web.scopes import Scope
from tests.certificates import Authority
from tests.collector.builders import collecting, settings
from tests.collector.web.test_auth import add
from wattpack.client.session import open_session, token_hint
from wire.errors import UserError

PATIENCE = aiohttp.ClientTimeout(total=10)


async def status_of(url: str, environment: dict[str, str]) -> int:
    async with open_session(PATIENCE, environment) as session, session.get(url + "/v1/nodes") as answer:
        return answer.status


async def test_token_from_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "tokens.jsonl"
    reads, reports = add(path, Scope.READ, "me"), add(path, Scope.NODE, "alpha")
    async with collecting(settings(tokens=path)) as client:
        for environment, expected, advice in (
            ({"WATTPACK_TOKEN": f"{reads}\n"}, 200, ""),
            ({"WATTPACK_TOKEN": reports}, 403, "is of the wrong kind"),
            ({"WATTPACK_TOKEN": "wrong"}, 401, "set WATTPACK_TOKEN"),
            ({}, 401, "set WATTPACK_TOKEN"),
        ):
            status = await status_of(client.url, environment)
            assert status == expected
            assert advice in token_hint(status)


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

from pathlib import Path

import aiohttp
import msgspec
import pytest

from collector.config import TlsConfig
from collector.web.scopes import Scope
from tests.certificates import Authority
from tests.collector.builders import collecting, settings
from tests.collector.web.test_auth import add
from wattpack.client.questions import about, asking
from wire.errors import UserError

PATIENCE = aiohttp.ClientTimeout(total=10)


async def status_of(url: str, environment: dict[str, str]) -> int:
    async with asking(PATIENCE, environment) as session, session.get(url + "/v1/nodes") as answer:
        return answer.status


async def test_the_token_of_the_environment_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "tokens.jsonl"
    reads, reports = add(path, Scope.READ, "me"), add(path, Scope.NODE, "alpha")
    async with collecting(settings(tokens=path)) as client:
        for environment, expected, advice in (
            ({"WATTPACK_TOKEN": f"{reads}\n"}, 200, ""),
            ({"WATTPACK_TOKEN": reports}, 403, "is not for this"),
            ({"WATTPACK_TOKEN": "wrong"}, 401, "set WATTPACK_TOKEN"),
            ({}, 401, "set WATTPACK_TOKEN"),
        ):
            status = await status_of(client.url, environment)
            assert status == expected
            assert advice in about(status)


@pytest.mark.lab
async def test_the_authority_of_the_environment_is_trusted(tmp_path: Path) -> None:
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
        ({"WATTPACK_TOKEN": "two words"}, "holds no token"),
        ({"WATTPACK_TOKEN": "ä"}, "holds no token"),
        ({"WATTPACK_CA_FILE": "/none"}, "cannot read certificates from /none"),
        ({"WATTPACK_CA_FILE": __file__}, "not in PEM"),
    ],
)
async def test_what_the_environment_says_wrong_is_one_clear_sentence(
    environment: dict[str, str], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        asking(PATIENCE, environment)

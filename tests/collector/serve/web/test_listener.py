from pathlib import Path
from typing import Any

import msgspec
import pytest

from collector.config import CollectorConfig, HttpConfig, TlsConfig
from collector.serve.web.auth import open_listener
from collector.serve.web.scopes import Scope
from tests.certificates import Authority
from tests.collector.builders import collecting, settings
from tests.collector.serve.web.test_auth import add
from wire.errors import UserError


def wide(tokens: Path | str, listen: str = "0.0.0.0:8640", **http: Any) -> CollectorConfig:
    return msgspec.structs.replace(settings(tokens=tokens), http=HttpConfig(listen=listen, **http))


@pytest.mark.parametrize("listen", ["0.0.0.0:8640", "[::]:8640", "192.0.2.1:8640", "example.org:80"])
@pytest.mark.parametrize("insecure", [False, True])
def test_remote_address_requires_tokens(tmp_path: Path, listen: str, *, insecure: bool) -> None:
    (tmp_path / "empty.jsonl").touch()
    for tokens in ("", tmp_path / "missing.jsonl", tmp_path / "empty.jsonl"):
        with pytest.raises(UserError, match=r"no tokens: create them with wattpack token add"):
            open_listener(wide(tokens, listen, insecure_plaintext=insecure))


def test_remote_address_requires_tls(tmp_path: Path) -> None:
    add(tmp_path / "tokens.jsonl", Scope.NODE, "alpha")
    with pytest.raises(UserError, match=r"without TLS.*tls\.certificate"):
        open_listener(wide(tmp_path / "tokens.jsonl"))
    assert open_listener(wide(tmp_path / "tokens.jsonl", insecure_plaintext=True)).tls is None


def test_loopback_requires_tokens_only_if_the_file_exists(tmp_path: Path) -> None:
    path = tmp_path / "tokens.jsonl"
    assert open_listener(settings(tokens=path)).tokens is None
    path.touch()
    assert open_listener(settings(tokens=path)).tokens is not None


def test_unreadable_token_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read the tokens"):
        open_listener(settings(tokens=tmp_path))


@pytest.mark.lab
def test_remote_address_with_tokens_and_tls(tmp_path: Path) -> None:
    add(tmp_path / "tokens.jsonl", Scope.NODE, "alpha")
    server = Authority(tmp_path).issue("server")
    tls = TlsConfig(certificate=str(server.certificate), key=str(server.key))
    opened = open_listener(msgspec.structs.replace(wide(tmp_path / "tokens.jsonl"), tls=tls))
    assert opened.tls is not None


async def test_remote_host_names_are_addresses_or_configured(tmp_path: Path) -> None:
    add(tmp_path / "tokens.jsonl", Scope.NODE, "alpha")
    config = wide(
        tmp_path / "tokens.jsonl", "0.0.0.0:0", insecure_plaintext=True, names="watts.example, Collector"
    )
    async with collecting(config) as client:
        url = client.url.replace("0.0.0.0", "127.0.0.1")
        for host, status in (
            ("watts.example:8640", 200),
            ("COLLECTOR", 200),
            ("10.1.2.3:8640", 200),
            ("[fd00::1]:8640", 200),
            ("localhost", 200),
            ("evil.example", 403),
            ("evil.watts.example", 403),
            ("", 403),
        ):
            async with client.http.get(url + "/healthz", headers={"Host": host}) as answer:
                assert (host, answer.status) == (host, status)

"""What an agent shows, to a collector that is real."""

import logging
from pathlib import Path

import msgspec
import pytest

from agent.config import DeliveryConfig
from agent.delivery.connection import read_token, sends_token_in_plaintext, tls_context
from agent.delivery.sender import ReportSender
from collector.config import TlsConfig
from collector.serve.web.scopes import Scope
from tests.agent.delivery.test_sender import MEMORY, Waits, lines, report, sending
from tests.agent.fake_collector import FakeCollector, serving_reports, status
from tests.certificates import Authority
from tests.collector.builders import collecting, settings
from tests.collector.serve.web.test_auth import add
from tests.waiting import until
from wire.errors import UserError


def written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_token_is_read_without_whitespace(tmp_path: Path) -> None:
    assert read_token(DeliveryConfig()) is None
    assert read_token(DeliveryConfig(token_file=written(tmp_path / "token", " abc-DEF_1\n"))) == "abc-DEF_1"


@pytest.mark.parametrize("text", ["", "\n", "two words", "a\nb", "ä", "a\x00b"])
def test_invalid_token_file_is_a_user_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "token"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match="contains no token"):
        ReportSender(DeliveryConfig(token_file=str(path)), MEMORY)
    with pytest.raises(UserError, match=r"cannot read .*: check collector\.token_file"):
        ReportSender(DeliveryConfig(token_file=str(tmp_path / "missing")), MEMORY)
    ReportSender(DeliveryConfig(enabled=False, token_file=str(tmp_path / "missing")), MEMORY)


@pytest.mark.parametrize(
    ("url", "warns"),
    [
        ("https://watts.example:8640", False),
        ("http://127.0.0.1:8640", False),
        ("http://[::1]:8640", False),
        ("http://localhost:8640", False),
        ("http://watts.example:8640", True),
        ("http://10.0.0.1:8640", True),
    ],
)
def test_token_without_tls_is_logged(url: str, *, warns: bool) -> None:
    assert sends_token_in_plaintext(DeliveryConfig(url=url, token_file="/some/token")) == warns  # noqa: S106 - a path
    assert not sends_token_in_plaintext(DeliveryConfig(url=url))


def test_certificates_without_tls_or_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="use https://"):
        tls_context(DeliveryConfig(ca_file="ca.crt"))
    for wrong in ({"ca_file": str(tmp_path / "x")}, {"cert_file": str(tmp_path / "x")}):
        with pytest.raises(UserError, match=r"no such file or directory.*check collector\."):
            tls_context(DeliveryConfig(url="https://watts.example", **wrong))  # type: ignore[arg-type]  # texts
    letter = written(tmp_path / "letter", "Dear reader")
    with pytest.raises(UserError, match="not PEM"):
        tls_context(DeliveryConfig(url="https://watts.example", ca_file=letter))


async def test_reports_wait_until_the_token_is_right(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tokens, file, waits = tmp_path / "tokens.jsonl", tmp_path / "token", Waits()
    written(file, add(tokens, Scope.NODE, "other"))
    right = add(tokens, Scope.NODE, "n")
    async with collecting(settings(tokens=tokens)) as client:
        sender = ReportSender(DeliveryConfig(url=client.url, token_file=str(file)), MEMORY, sleep=waits)
        async with sending(sender):
            sender.enqueue(report(1))
            await until(lambda: any("is not valid for this node" in each for each in lines(caplog)))
            assert sender.dropped == 0
            file.unlink()
            tried = len(waits.seconds)
            await until(lambda: len(waits.seconds) > tried + 1)
            written(file, right)
            await until(lambda: sender.delivered == 1)
    assert right not in caplog.text


async def test_retry_after_of_429_is_respected() -> None:
    receiver, waits = FakeCollector(), Waits()
    receiver.answers = [status(429, **{"Retry-After": "40"}), status(408)]
    async with serving_reports(receiver) as collector:
        sender = ReportSender(collector, MEMORY, sleep=waits)
        async with sending(sender):
            sender.enqueue(report(1))
            await until(lambda: sender.delivered == 1)
    assert 40 <= waits.seconds[0] <= 50
    assert waits.seconds[1] < 5
    assert sender.dropped == 0


@pytest.mark.lab
async def test_over_tls_with_a_certificate_instead_of_a_token(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    authority = Authority(tmp_path)
    server, own = authority.issue("server"), authority.issue("n")
    trusted = str(authority.certificate)
    tls = TlsConfig(certificate=str(server.certificate), key=str(server.key), client_ca=trusted)
    add(tmp_path / "tokens.jsonl", Scope.READ, "someone")
    config = msgspec.structs.replace(settings(tokens=tmp_path / "tokens.jsonl"), tls=tls)
    async with collecting(config) as client:
        believing = DeliveryConfig(
            url=client.url, ca_file=trusted, cert_file=str(own.certificate), key_file=str(own.key)
        )
        sender = ReportSender(believing, MEMORY)
        async with sending(sender):
            sender.enqueue(report(1))
            await until(lambda: sender.delivered == 1)
        doubting = ReportSender(DeliveryConfig(url=client.url), MEMORY, sleep=Waits())
        async with sending(doubting):
            doubting.enqueue(report(2))
            await until(lambda: any("its certificate is not trusted" in each for each in lines(caplog)))
        assert doubting.delivered == 0

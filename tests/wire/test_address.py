import pytest

from wire.address import Address, parse_address
from wire.errors import UserError


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:8640", "127.0.0.1", 8640),
        ("[::1]:0", "::1", 0),
        ("node-1.example:65535", "node-1.example", 65535),
    ],
)
def test_an_address_reads_back_as_written(text: str, host: str, port: int) -> None:
    address = parse_address(text)
    assert (address.host, address.port) == (host, port)
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    ["", "8640", "localhost", ":8640", "::1:8640", "a:65536", "a:-1", "a:\N{FULLWIDTH DIGIT EIGHT}", "a:b"],
)
def test_what_is_no_address_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(UserError, match="is not an address: write host:port"):
        parse_address(text)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_what_no_other_machine_reaches_is_loopback(host: str) -> None:
    assert Address(host, 1).is_loopback


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "localhost.example", "fe80::1"])
def test_everything_else_is_not(host: str) -> None:
    assert not Address(host, 1).is_loopback


def test_address_has_a_url() -> None:
    assert Address("::1", 9640).url == "http://[::1]:9640"
    assert Address("127.0.0.1", 9640, tls=True).url == "https://127.0.0.1:9640"

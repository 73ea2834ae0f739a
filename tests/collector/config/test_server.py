import pytest

from collector.config import HttpConfig, TlsConfig
from wire.errors import UserError


@pytest.mark.parametrize(
    ("tls", "sentence"),
    [
        ({"certificate": "x.crt"}, "belong together"),
        ({"key": "x.key"}, "belong together"),
        ({"client_ca": "ca.crt"}, "requires TLS"),
    ],
)
def test_incomplete_tls_settings_are_refused(tls: dict[str, str], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        TlsConfig(**tls)


def test_an_invalid_address_is_refused() -> None:
    with pytest.raises(UserError, match="nowhere"):
        HttpConfig(listen="nowhere")


def test_names_are_distinct_and_in_lower_case() -> None:
    assert HttpConfig(names=" Power.example, ,watts").other_names == {"power.example", "watts"}
    assert HttpConfig().other_names == frozenset()

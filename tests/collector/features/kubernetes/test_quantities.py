from decimal import Decimal

import pytest

from collector.features.kubernetes.quantities import parse_quantity
from wire.errors import UserError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("250m", "0.25"),
        ("1", "1"),
        ("0.5", "0.5"),
        (".5", "0.5"),
        ("2.", "2"),
        ("1e3", "1000"),
        ("12E-1", "1.2"),
        ("2E", "2e18"),
        ("1Gi", 1 << 30),
        ("1.5Ki", "1536"),
        ("129M", "129000000"),
        ("100k", "100000"),
        ("500u", "0.0005"),
        ("7n", "7e-9"),
        ("3Ei", 3 << 60),
    ],
)
def test_quantities_are_read_as_kubernetes_writes_them(text: str, expected: str | int) -> None:
    assert parse_quantity(text) == Decimal(expected)


@pytest.mark.parametrize(
    "text", ["", "m", "1Q", "1 Gi", "1gi", "0x1", "1e", "1mm", "\u0661", "1e999", "9" * 10_000]
)
def test_an_invalid_quantity_is_an_error_that_names_it(text: str) -> None:
    with pytest.raises(UserError, match="is not a Kubernetes quantity"):
        parse_quantity(text)

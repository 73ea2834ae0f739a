"""Quantities of Kubernetes."""

import re
from collections.abc import Mapping
from decimal import Decimal

from wire.errors import UserError

_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30}))"
    r"(?P<suffix>[eE][+-]?[0-9]{1,2}|[numkMGTPE]|[KMGTPE]i|)"
)
"""At most 30 digits: longer numbers would only cost time."""
_SUFFIXES: Mapping[str, Decimal] = {
    **{suffix: Decimal(10) ** power for suffix, power in zip("num", (-9, -6, -3), strict=True)},
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
    "": Decimal(1),
}


def parse_quantity(text: str) -> Decimal:
    """Parse a quantity in the format of Kubernetes: `250m`, `1.5`, `2Gi`, `1e3`."""
    found = _QUANTITY.fullmatch(text.strip())
    if found is None:
        raise UserError(f"{text!r} is not a Kubernetes quantity: write it like 250m, 1.5 or 2Gi")
    number, suffix = Decimal(found["number"]), found["suffix"]
    if suffix in _SUFFIXES:
        return number * _SUFFIXES[suffix]
    return number.scaleb(int(suffix[1:]))

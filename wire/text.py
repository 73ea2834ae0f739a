"""Text from elsewhere: printed on terminals and in logs, or parsed as a number."""

import json

_LINES = "\n\t"
_LARGEST = 2**63 - 1
_MAX_DIGITS = 19
"""Digits of the largest count that fits in a report; anything larger is an error of a driver."""


def parse_count(text: str | bytes | None) -> int | None:
    """A non-negative number; None for any other text."""
    if text is None:
        return None
    digits = text.strip()
    if not digits.isdigit() or not digits.isascii() or len(digits) > _MAX_DIGITS:
        return None
    count = int(digits)
    return count if count <= _LARGEST else None


def printable(text: str, *, keep: str = "") -> str:
    """The text with every control character, and whatever else is not printable, written as JSON does.

    Names, labels and messages come from other machines: as they are, they could move the cursor, change
    colours or fake lines.
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in keep else json.dumps(letter)[1:-1] for letter in text
    )


def printable_lines(text: str) -> str:
    """Like `printable`, for text of several lines."""
    return printable(text, keep=_LINES)

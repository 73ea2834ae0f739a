"""Text from elsewhere, for terminals and logs."""

import json

_LINES = "\n\t"


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

"""The lines of a trace, plain or gzip."""

import gzip
from collections.abc import Iterator
from pathlib import Path

from wire.errors import UserError

_GZIP = b"\x1f\x8b"


def is_gzip(path: Path) -> bool:
    """Whether a file is gzip, by its first bytes."""
    with path.open("rb") as file:
        return file.read(len(_GZIP)) == _GZIP


def open_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Each line with its number, counted from 1."""
    try:
        gzipped = is_gzip(path)
        with gzip.open(path, "rt", encoding="utf-8") if gzipped else path.open(encoding="utf-8") as lines:
            yield from enumerate(lines, start=1)
    except UnicodeDecodeError:
        raise UserError(f"{path} is not text: give a trace, plain or gzip") from None
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(
            f"cannot read the trace {path} ({reason}): check its name, and that it is complete"
        ) from None

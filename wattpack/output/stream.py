"""Standard output without control characters."""

from typing import Any, TextIO

from wire.text import printable_lines


class PrintableStream:
    """Writes text to a stream, with all control characters escaped except line ends and tabs."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(printable_lines(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the stream's attributes
        return getattr(self._stream, name)

"""A terminal for tests of `wattpack.commands.up`."""

import io
import re

_CONTROL = re.compile(r"\x1b\[(?P<number>\d*)(?P<command>[FJ])")


class FakeTerminal(io.StringIO):
    """Wraps lines, and supports the control sequences that `LiveText` sends."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.columns = columns
        self.rows = [""]
        self._row = 0

    def write(self, text: str) -> int:
        place = 0
        while place < len(text):
            if control := _CONTROL.match(text, place):
                if control["command"] == "F":
                    self._row = max(0, self._row - int(control["number"]))
                else:
                    self.rows[self._row :] = [""]
                place = control.end()
                continue
            if text[place] == "\n":
                self._down()
            else:
                if len(self.rows[self._row]) == self.columns:
                    self._down()
                self.rows[self._row] += text[place]
            place += 1
        return len(text)

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self.rows):
            self.rows.append("")

    @property
    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self.rows)

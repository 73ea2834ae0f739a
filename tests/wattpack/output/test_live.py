import io
import logging
import os
import re

from hypothesis import given
from hypothesis import strategies as st

from tests.reports import container, report
from wattpack.commands.up import fit_report
from wattpack.output.live import LinesAbove, LiveText, rows_of

_CONTROL = re.compile(r"\x1b\[(?P<number>\d*)(?P<command>[FJ])")


class Screen(io.StringIO):
    """A terminal that wraps, as far as `LiveText` uses one."""

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


_LINES = st.lists(st.text("abc ", max_size=200), min_size=1, max_size=6).map("\n".join)


@given(st.lists(_LINES, min_size=1, max_size=5), st.integers(1, 100))
def test_only_the_last_text_is_on_the_screen(texts: list[str], columns: int) -> None:
    screen, expected = Screen(columns), Screen(columns)
    live = LiveText(screen, lambda: os.terminal_size((columns, 24)))
    for text in texts:
        live.show(text)
    expected.write(f"{texts[-1]}\n")
    assert screen.text == expected.text


def test_log_lines_stay_above_the_text() -> None:
    screen = Screen(80)
    live = LiveText(screen, lambda: os.terminal_size((80, 24)))
    log = logging.getLogger("test_live")
    log.propagate = False
    log.addHandler(LinesAbove(logging.StreamHandler(screen), live))
    live.show("first " * 20)
    log.warning("the collector does not answer")
    live.show("second " * 20)
    log.warning("it answers again")
    assert screen.text.splitlines()[:2] == ["the collector does not answer", "it answers again"]
    assert "first" not in screen.text
    assert screen.text.replace("\n", "").count("second") == 20


def test_wide_characters_take_two_cells() -> None:
    assert rows_of("電" * 40, 80) == 1
    assert rows_of("電" * 41, 80) == 2
    assert rows_of("e\u0301" * 80, 80) == 1


def test_report_fits_a_small_terminal() -> None:
    text = fit_report(report(*(container(f"c{number}") for number in range(60))), os.terminal_size((80, 24)))
    assert rows_of(text, 80) < 24
    assert text.splitlines()[-1].startswith("... and ")

import logging
import os

from hypothesis import given
from hypothesis import strategies as st

from tests.wattpack.commands.fake_terminal import FakeTerminal
from wattpack.commands.up import LinesAbove, LiveText, rows_of

_LINES = st.lists(st.text("abc ", max_size=200), min_size=1, max_size=6).map("\n".join)


@given(st.lists(_LINES, min_size=1, max_size=5), st.integers(1, 100))
def test_only_the_last_text_is_on_the_screen(texts: list[str], columns: int) -> None:
    screen, expected = FakeTerminal(columns), FakeTerminal(columns)
    live = LiveText(screen, lambda: os.terminal_size((columns, 24)))
    for text in texts:
        live.show(text)
    expected.write(f"{texts[-1]}\n")
    assert screen.text == expected.text


def test_log_lines_stay_above_the_text() -> None:
    screen = FakeTerminal(80)
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

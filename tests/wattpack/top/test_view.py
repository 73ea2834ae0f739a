import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wattpack.top.view import SORTS, View, Viewport, press

VIEWPORT = Viewport(rows=100, visible=10)
UNHURRIED = settings(deadline=None)
"""What holds is asked here, and not how fast: a busy machine may stop us for a while."""
KEYS = st.one_of(
    st.sampled_from([*SORTS, "r", "/", "?", "\t", "enter", "escape", "backspace", ""]),
    st.sampled_from(["up", "down", "page up", "page down", "home", "end"]),
    st.characters(),
)


def after(*keys: str, view: View = View(), viewport: Viewport = VIEWPORT) -> View:  # noqa: B008 - it is immutable
    for key in keys:
        pressed = press(view, key, viewport)
        assert pressed is not None, f"{key!r} ended it"
        view = pressed
    return view


@pytest.mark.parametrize(("key", "sort"), SORTS.items())
def test_sort_keys(key: str, sort: str) -> None:
    assert after("r", "page down", key) == View(sort=sort)


def test_r_reverses_the_order() -> None:
    assert after("r").reverse
    assert not after("r", "r").reverse


def test_q_quits_except_while_typing() -> None:
    assert press(View(), "q", VIEWPORT) is None
    assert after("/", "q").filter == "q"


def test_typing_a_filter() -> None:
    typed = after("/", "w", "e", "x", "backspace", "b")
    assert (typed.filter, typed.typing) == ("web", True)
    kept = after("enter", view=typed)
    assert (kept.filter, kept.typing) == ("web", False)


def test_escape_clears_the_filter() -> None:
    assert after("/", "w", "escape") == View()
    assert after("/", "w", "enter", "?", "escape") == View()


def test_backspace_on_an_empty_filter() -> None:
    assert after("/", "backspace", "enter") == View()


def test_scrolling_stops_at_both_ends() -> None:
    assert after("up").first == 0
    assert after("down", "down", "up").first == 1
    assert after("page down", "page down", "page up").first == 10
    assert after("end").first == 90
    assert after("end", "down").first == 90
    assert after("end", "home").first == 0
    assert after("down", viewport=Viewport(rows=3, visible=10)).first == 0


def test_scrolling_back_after_rows_disappear() -> None:
    far = after("end")
    assert after("up", view=far, viewport=Viewport(rows=30, visible=10)).first == 19


def test_help_and_tab_keys() -> None:
    assert after("?").help
    assert not after("?", "?").help
    assert after("\t").nodes
    assert not after("\t", "\t").nodes


@UNHURRIED
@given(st.lists(KEYS, max_size=30), st.integers(0, 50), st.integers(0, 50))
def test_keys_never_scroll_beyond_the_rows(keys: list[str], rows: int, visible: int) -> None:
    viewport = Viewport(rows, visible)
    view = View()
    for key in keys:
        pressed = press(view, key, viewport)
        if pressed is None:
            assert key == "q"
            return
        view = pressed
        assert 0 <= view.first <= max(0, rows - visible)

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wattpack.top.view import SORTS, Room, View, press

ROOM = Room(rows=100, visible=10)
UNHURRIED = settings(deadline=None)
"""What holds is asked here, and not how fast: a busy machine may stop us for a while."""
KEYS = st.one_of(
    st.sampled_from([*SORTS, "r", "/", "?", "\t", "enter", "escape", "backspace", ""]),
    st.sampled_from(["up", "down", "page up", "page down", "home", "end"]),
    st.characters(),
)


def after(*keys: str, view: View = View(), room: Room = ROOM) -> View:  # noqa: B008 - it is immutable
    for key in keys:
        pressed = press(view, key, room)
        assert pressed is not None, f"{key!r} ended it"
        view = pressed
    return view


@pytest.mark.parametrize(("key", "sort"), SORTS.items())
def test_each_sort_key_sorts_by_its_column_from_the_top(key: str, sort: str) -> None:
    assert after("r", "page down", key) == View(sort=sort)


def test_r_turns_the_order_and_turns_it_back() -> None:
    assert after("r").reverse
    assert not after("r", "r").reverse


def test_q_ends_it_but_not_while_a_filter_is_typed() -> None:
    assert press(View(), "q", ROOM) is None
    assert after("/", "q").filter == "q"


def test_a_filter_is_typed_mended_and_kept() -> None:
    typed = after("/", "w", "e", "x", "backspace", "b")
    assert (typed.filter, typed.typing) == ("web", True)
    kept = after("enter", view=typed)
    assert (kept.filter, kept.typing) == ("web", False)


def test_escape_shows_all_again_while_typing_and_later() -> None:
    assert after("/", "w", "escape") == View()
    assert after("/", "w", "enter", "?", "escape") == View()


def test_backspace_on_an_empty_filter_is_nothing() -> None:
    assert after("/", "backspace", "enter") == View()


def test_scrolling_stops_at_both_ends() -> None:
    assert after("up").first == 0
    assert after("down", "down", "up").first == 1
    assert after("page down", "page down", "page up").first == 10
    assert after("end").first == 90
    assert after("end", "down").first == 90
    assert after("end", "home").first == 0
    assert after("down", room=Room(rows=3, visible=10)).first == 0


def test_scrolling_back_answers_at_once_after_rows_have_gone() -> None:
    far = after("end")
    assert after("up", view=far, room=Room(rows=30, visible=10)).first == 19


def test_the_question_mark_helps_and_tab_turns_to_the_nodes() -> None:
    assert after("?").help
    assert not after("?", "?").help
    assert after("\t").nodes
    assert not after("\t", "\t").nodes


@UNHURRIED
@given(st.lists(KEYS, max_size=30), st.integers(0, 50), st.integers(0, 50))
def test_no_key_can_lead_beyond_the_rows(keys: list[str], rows: int, visible: int) -> None:
    room = Room(rows, visible)
    view = View()
    for key in keys:
        pressed = press(view, key, room)
        if pressed is None:
            assert key == "q"
            return
        view = pressed
        assert 0 <= view.first <= max(0, rows - visible)

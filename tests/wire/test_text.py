import json

from hypothesis import given
from hypothesis import strategies as st

from wire.text import printable, printable_lines


@given(st.text())
def test_no_control_character_is_left_and_the_text_can_be_read_back(text: str) -> None:
    assert printable(text).isprintable()
    assert all(line.replace("\t", "").isprintable() for line in printable_lines(text).split("\n"))
    if text.isprintable():
        assert printable(text) == text


def test_json_stays_json() -> None:
    text = json.dumps({"name": "a\x9b31m\u202eb"}, ensure_ascii=False)
    assert json.loads(printable_lines(text)) == json.loads(text)

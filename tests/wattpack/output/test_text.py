import pytest

from wattpack.output.text import bytes_text, energy_text, number_text, percent_text, seconds_text, table


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "-"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536 * 1024, "1.5 MiB"),
        (1 << 50, "1024.0 TiB"),
    ],
)
def test_bytes_text_chooses_the_unit(number: float | None, text: str) -> None:
    assert bytes_text(number) == text


@pytest.mark.parametrize(
    ("joules", "text"),
    [
        (None, "-"),
        (0.0, "0.00 J"),
        (2.5, "2.50 J"),
        (36.0, "10.00 mWh"),
        (3600.0, "1.00 Wh"),
        (7.2e6, "2.00 kWh"),
        (3.6e10, "10.00 MWh"),
    ],
)
def test_energy_text_chooses_the_unit(joules: float | None, text: str) -> None:
    assert energy_text(joules) == text


def test_number_formats() -> None:
    assert [seconds_text(each) for each in (5, 119, 120, 7200, 172_800)] == [
        "5 s",
        "119 s",
        "2 min",
        "2 h",
        "2 d",
    ]
    assert (number_text(None), number_text(1.234)) == ("-", "1.23")
    assert (percent_text(None), percent_text(0.456)) == ("-", "46%")


def test_table_continues_rows_that_are_wider_than_the_terminal() -> None:
    lines = table(("NAME", "FIRST", "SECOND"), [("web1", "1", "2")], width=14)
    assert lines == ["NAME  FIRST\n    SECOND", "web1      1\n         2"]


def test_table_in_a_pipe_keeps_each_row_on_one_line() -> None:
    wide = "x" * 500
    assert table(("NAME", "TEXT"), [("web1", wide)])[1] == f"web1  {wide}"

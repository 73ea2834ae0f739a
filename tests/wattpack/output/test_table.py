from wattpack.output.table import table


def test_table_continues_rows_that_are_wider_than_the_terminal() -> None:
    lines = table(("NAME", "FIRST", "SECOND"), [("web1", "1", "2")], width=14)
    assert lines == ["NAME  FIRST\n    SECOND", "web1      1\n         2"]


def test_table_in_a_pipe_keeps_each_row_on_one_line() -> None:
    wide = "x" * 500
    assert table(("NAME", "TEXT"), [("web1", wide)])[1] == f"web1  {wide}"

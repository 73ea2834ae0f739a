from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from collector.observe.table import Table, places
from collector.snapshot.columns import selected


@dataclass
class Columns:
    """A number and a pair."""

    one: NDArray[np.float64]
    two: NDArray[np.int64]


def table() -> Table[Columns]:
    return Table(Columns(np.full(1, np.nan), np.zeros((1, 2), dtype=np.int64)))


@given(st.lists(st.lists(st.integers(0, 150), max_size=90), max_size=6))
def test_rows_come_and_go_and_stand_by_name(rounds: list[list[int]]) -> None:
    known, rows = table(), dict[str, int]()
    for numbers in rounds:
        for number in numbers:
            name = f"n{number}"
            if name in rows:
                known.remove(rows.pop(name))
            else:
                row = rows[name] = known.add(name)
                assert np.isnan(known.columns.one[row]), "a reused row is blank"
                known.columns.one[row], known.columns.two[row] = number, (number, -number)
        order = known.order()
        assert known.names(order) == tuple(sorted(rows))
        copy = selected(known.columns, order)
        assert copy.one.tolist() == [float(name[1:]) for name in sorted(rows)]
        assert copy.two[:, 1].tolist() == [-int(name[1:]) for name in sorted(rows)]
        assert places(order, known.size)[order].tolist() == list(range(len(rows)))


def test_a_renamed_row_stands_where_its_new_name_belongs() -> None:
    known = table()
    first, second = known.add("a"), known.add("b")
    known.order()
    known.rename(first, "c")
    assert known.order().tolist() == [second, first]

import json
import math
import sys

import pytest

from bench.common.results import Figure, Result


@pytest.mark.parametrize(
    ("value", "at_most", "at_least", "ok"),
    [
        (1.0, None, None, True),
        (None, None, None, True),
        (1.5, 1.5, None, True),
        (1.6, 1.5, None, False),
        (1.5, None, 1.5, True),
        (1.4, None, 1.5, False),
        (3.0, 4.0, 2.0, True),
        (5.0, 4.0, 2.0, False),
        (None, 4.0, None, False),
        (math.nan, 4.0, None, False),
        (math.inf, None, 4.0, True),
    ],
)
def test_a_figure_keeps_its_bounds_or_not(
    value: float | None,
    at_most: float | None,
    at_least: float | None,
    ok: bool,  # noqa: FBT001 - a column of the table above
) -> None:
    figure = Figure(name="x", value=value, unit="s", at_most=at_most, at_least=at_least)
    assert figure.ok is ok
    assert Result((figure,)).ok is ok
    json.dumps(figure.as_json(), allow_nan=False)


def test_figure_is_printed_with_its_bound() -> None:
    figure = Figure(name="cpu", value=2.13456, unit="%", at_most=1.5)
    assert str(figure) == "cpu: 2.135 % (at most 1.5)"
    assert figure.as_json() == {"value": 2.13456, "unit": "%", "bound": {"at_most": 1.5}, "ok": False}
    assert str(Figure(name="p99", value=None, unit="s", at_least=1)) == "p99: not measured (at least 1)"
    assert Figure(name="seen", value=3, unit="").as_json()["bound"] is None


def test_a_result_without_figures_is_not_ok() -> None:
    assert not Result(()).ok


def test_two_figures_cannot_share_a_name() -> None:
    with pytest.raises(ValueError, match="share a name"):
        Result((Figure(name="x", value=1, unit=""), Figure(name="x", value=2, unit="")))


def test_the_table_shows_every_figure_with_its_bound() -> None:
    figures = (
        Figure(name="reports", value=12345.6, unit="reports per second", at_least=10_000),
        Figure(name="latency", value=0.01234, unit="s at the 99th percentile", at_most=0.01),
        Figure(name="memory", value=None, unit="MB"),
    )
    assert Result(figures).table() == [
        "figure     value           bound          unit",
        "reports   12,346  at least 10000      ok  reports per second",
        "latency  0.01234    at most 0.01  missed  s at the 99th percentile",
        "memory         -                          MB",
    ]


def test_the_table_has_a_line_per_figure_in_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "20")
    assert Result((Figure(name="latency", value=1.0, unit="s", at_most=2.0),)).table() == [
        "figure   value      bound      unit",
        "latency      1  at most 2  ok  s",
    ]

import pytest

from tests.reports import container, report
from wattpack.output.report import bytes_text, energy_text, show_report, table


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


def test_report_lists_containers_by_power() -> None:
    shown = show_report(report(container("small", watts=0.5), container("big", watts=5.0))).splitlines()
    assert shown[0] == (
        "node1: 1.50 of 4 cores (38%), memory 2.0 GiB of 8.0 GiB (25%), disk 4.0 KiB/s, network -"
    )
    assert shown[1] == (
        "power: 45.50 W ±22.75 at the wall by prior = idle 38.00 + system 2.00 + containers 5.50"
    )
    assert shown[3].split() == ["CONTAINER", "CPU", "CORES", "MEMORY", "DISK", "NETWORK", "POWER"]
    assert shown[4].split() == ["big", "0.500", "256.0", "MiB", "2.0", "KiB/s", "-", "5.00", "W", "±3.00"]
    assert shown[5].startswith("small")


def test_unknown_values_are_dashes_in_the_report() -> None:
    assert show_report(report(container("new", cpu_cores=None))).splitlines()[4].split()[:2] == ["new", "-"]


def test_omitted_containers_are_counted() -> None:
    many = [container(f"c{number}") for number in range(10)]
    shown = show_report(report(*many), most_containers=3).splitlines()
    assert len([line for line in shown if line.startswith("c")]) == 3
    assert shown[-1] == "... and 7 more"


def test_report_without_containers() -> None:
    assert show_report(report()).endswith("No running containers.")


def test_table_continues_rows_that_are_wider_than_the_terminal() -> None:
    lines = table(("NAME", "FIRST", "SECOND"), [("web1", "1", "2")], width=14)
    assert lines == ["NAME  FIRST\n    SECOND", "web1      1\n         2"]


def test_table_in_a_pipe_keeps_each_row_on_one_line() -> None:
    wide = "x" * 500
    assert table(("NAME", "TEXT"), [("web1", wide)])[1] == f"web1  {wide}"

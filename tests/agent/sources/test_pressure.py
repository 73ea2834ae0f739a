from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agent.sources.files import parse_pressure
from agent.sources.host import read_host_pressure
from agent.sources.readings import PressureTotals
from tests.agent.trees import make_host, pressure


def test_the_total_of_some_is_taken_in_seconds() -> None:
    assert parse_pressure(pressure(1_500_000).encode()).cpu_seconds == 1.5


def test_full_is_not_taken_for_some() -> None:
    assert parse_pressure(b"full avg10=0.00 avg60=0.00 avg300=0.00 total=9\n").cpu_seconds is None


def test_the_host(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    assert read_host_pressure(str(host.proc)) == PressureTotals(2.0, 3.0, 4.0)


def test_each_pressure_file_is_parsed_separately() -> None:
    texts = (pressure(1).encode(), pressure(0).encode(), b"?")
    assert parse_pressure(*texts) == PressureTotals(1e-6, 0.0, None)
    assert parse_pressure(None, None, None) == PressureTotals()


def test_without_psi_all_is_unknown(tmp_path: Path) -> None:
    assert read_host_pressure(str(tmp_path)) == PressureTotals()


@given(st.binary())
def test_any_bytes_can_be_parsed(text: bytes) -> None:
    parse_pressure(text)
    parse_pressure(b"some avg10=0 total=" + text)

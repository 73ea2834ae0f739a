import pytest

from bench.page.benchmark import SIZES, _changes, _cpu
from bench.page.demo import running_demo
from wire.errors import UserError


def test_the_page_is_measured_at_the_size_of_the_demo_and_of_a_large_cluster() -> None:
    assert SIZES == {"demo": (20, 200), "large": (1000, 50_000)}


def test_a_change_that_never_appears_is_not_measured() -> None:
    median, slowest = _changes("demo", "search", [100.0, 300.0, 200.0])
    assert (median.value, slowest.value) == (200.0, 300.0)
    assert [each.value for each in _changes("demo", "search", [100.0, None])] == [None, None]


def test_the_cpu_of_a_page_is_the_difference_to_the_time_around_it() -> None:
    added, lowest, highest, without, spread, with_page = _cpu("demo", [0.10, 0.12, 0.10], [0.12, 0.14])
    assert added.value == pytest.approx(2.0)
    assert lowest.value == pytest.approx(1.0)
    assert highest.value == pytest.approx(3.0)
    assert without.value == pytest.approx(32 / 3)
    assert spread.value == pytest.approx(2.0)
    assert with_page.value == pytest.approx(13.0)


@pytest.mark.slow
def test_a_demo_that_does_not_start_is_an_error() -> None:
    with pytest.raises(UserError, match="wattpack did not start"), running_demo(0, 10):
        pytest.fail("it cannot start")

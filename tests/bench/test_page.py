import pytest

from bench.page import SIZES, _median
from bench.page_demo import running_demo
from wire.errors import UserError


def test_the_page_is_measured_at_the_size_of_the_demo_and_of_a_large_cluster() -> None:
    assert SIZES == {"demo": (20, 200), "large": (1000, 50_000)}


def test_a_change_that_never_showed_is_not_measured() -> None:
    assert _median([100.0, 300.0, 200.0]) == 200.0
    assert _median([100.0, None]) is None


def test_a_demo_that_does_not_start_is_an_error() -> None:
    with pytest.raises(UserError, match="the demo did not start"), running_demo(0, 10):
        pytest.fail("it cannot start")

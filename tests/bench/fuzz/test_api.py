import pytest

from bench.fuzz.api import fuzz
from collector.api.table import ROUTES


@pytest.mark.slow
async def test_the_api_is_as_it_is_described() -> None:
    found = await fuzz(examples=3, seed=1, phases="fuzzing")
    assert found.cases > len(ROUTES)
    assert found.failures == 0, found.text

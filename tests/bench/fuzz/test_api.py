import pytest

from bench.fuzz.api import fuzz
from collector.api.table import ROUTES


@pytest.mark.slow
async def test_the_api_conforms_to_its_description() -> None:
    found = await fuzz(examples=3, seed=1, phases="fuzzing")
    assert found.cases > len(ROUTES)
    assert found.failures == 0, found.text

import pytest

from bench.fuzz.api import fuzz, parse_output
from collector.serve.api.table import ROUTES
from wire.errors import UserError


@pytest.mark.parametrize(
    ("text", "status", "cases", "failures"),
    [
        ("Test cases:\n  1200 generated, 1200 passed\n", 0, 1200, 0),
        ("Test cases:\n  1200 generated, 9 found 3 unique failures\n", 1, 1200, 3),
        ("Test cases:\n  1200 generated, 2 found 1 unique failure\n", 1, 1200, 1),
        ("Test cases:\n  1200 generated, 1200 passed\n", 2, 1200, 1),
    ],
)
def test_failures_are_those_that_schemathesis_printed(
    text: str, status: int, cases: int, failures: int
) -> None:
    outcome = parse_output(text, status)
    assert (outcome.cases, outcome.failures) == (cases, failures)


def test_unfinished_run_is_an_error() -> None:
    with pytest.raises(UserError, match="Traceback"):
        parse_output("Traceback ...", 1)


@pytest.mark.slow
async def test_the_api_conforms_to_its_description() -> None:
    found = await fuzz(examples=3, seed=1, phases="fuzzing")
    assert found.cases > len(ROUTES)
    assert found.failures == 0, found.text

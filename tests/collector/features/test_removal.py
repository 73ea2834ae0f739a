import os
import subprocess
import sys

import pytest

from collector.features import FEATURES
from tests.collector.features.hidden import HIDDEN_FEATURES

CORE = ("tests/collector", "--ignore", "tests/collector/features")
SEAMS = ("tests/collector/test_main.py", "tests/collector/serve/api")


def run_without(features: str, *tests: str) -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow and not lab",
    ]
    run = subprocess.run(
        [*command, "-p", "tests.collector.features.hidden", *tests],
        env={**os.environ, HIDDEN_FEATURES: features, "WATTPACK_TESTS": "fast"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-4000:]


@pytest.mark.slow
@pytest.mark.parametrize("feature", FEATURES)
def test_the_core_starts_and_answers_without_a_feature(feature: str) -> None:
    run_without(feature, *SEAMS)


@pytest.mark.slow
def test_the_core_passes_its_tests_without_any_feature() -> None:
    run_without(" ".join(FEATURES), *CORE)

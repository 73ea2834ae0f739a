import os
import subprocess
import sys

import pytest

from collector.features import FEATURES
from tests.collector.features.hidden import HIDDEN_FEATURE

CORE = ("tests/collector/test_main.py", "tests/collector/serve/api")


@pytest.mark.slow
@pytest.mark.parametrize("feature", FEATURES)
def test_the_core_starts_and_answers_without_a_feature(feature: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not slow"]
    run = subprocess.run(
        [*command, "-p", "tests.collector.features.hidden", *CORE],
        env={**os.environ, HIDDEN_FEATURE: feature, "WATTPACK_TESTS": "fast"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-4000:]

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.browser import read_page
from tests.lab.waiting import eventually
from tests.processes import wattpack

pytestmark = pytest.mark.lab


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[str]:
    up = wattpack(
        "up",
        "--data",
        str(tmp_path / "data"),
        *("--set", "collector.http.listen=127.0.0.1:0", "--set", "agent.http.listen=127.0.0.1:0"),
    )
    with up.running() as process:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"^  collector http://(\S+)", line):
                yield found[1]
                return


def test_page_answers_with_credentials_in_its_url(collector: str, tmp_path: Path) -> None:
    def page() -> str:
        return read_page(f"http://anyone:secret@{collector}/", tmp_path / "profile")

    eventually(lambda: "Nodes (1 of 1 up)" in page(), 60)

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.collector.builders import Client, collecting, settings


@pytest.fixture
async def collector(tmp_path: Path) -> AsyncIterator[Client]:
    async with collecting(settings(tmp_path / "history.db")) as client:
        yield client

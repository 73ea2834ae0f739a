import subprocess
import sys
from pathlib import Path

import pytest

from bench.common.listening import await_url
from wire.errors import UserError


def test_the_address_is_read_from_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("INFO started\nINFO listening on http://127.0.0.1:9400/\n")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert await_url(process, log) == "http://127.0.0.1:9400"


def test_a_collector_that_ends_is_an_error_with_its_output(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("the port is in use\n")
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
        with pytest.raises(UserError, match="the collector did not start: the port is in use"):
            await_url(process, log)

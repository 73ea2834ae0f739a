"""Waiting for a collector to start, by its log."""

import re
import subprocess
import time
from pathlib import Path

import psutil

from wire.errors import UserError

TIMEOUT_SECONDS = 60.0
_POLL_SECONDS = 0.02
_LISTENING = re.compile(r"listening on (?P<url>\S+)\s")


def await_url(process: "subprocess.Popen[bytes] | psutil.Popen", log: Path) -> str:
    """Wait until a collector logs its address; returns that, or raises `UserError` if it does not start."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if found := _LISTENING.search(log.read_text()):
            return found["url"].rstrip("/")
        time.sleep(_POLL_SECONDS)
    raise UserError(f"the collector did not start: {log.read_text().strip()[-2000:] or 'no output'}")

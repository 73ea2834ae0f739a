"""A real browser, headless: opens a page and returns what its scripts made of it."""

import subprocess
from pathlib import Path

from tests.lab.parts import require


def read_page(url: str, folder: Path, *, milliseconds: int = 5000) -> str:
    """The document as markup after some time of the page's own."""
    require("browser")
    command = [
        "chromium",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        f"--user-data-dir={folder}",
        f"--virtual-time-budget={milliseconds}",
        "--dump-dom",
        url,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout

"""A collector in its own process, with a clock that runs faster and that a file can set.

    python -m bench.trust.collector FOLDER SPEED BEGAN_AT

`FOLDER/offset` holds the error of its system clock, in seconds.
"""

import asyncio
import logging
import signal
import sys
import time
from pathlib import Path
from typing import ClassVar

from collector.common.clocks import SteadyClock
from collector.config import AccessConfig, CollectorConfig, HistoryConfig, HttpConfig
from collector.main import running


def compressed_time(speed: float, began_at: float) -> float:
    """Return simulated time, which advances `speed` seconds per second since the start."""
    return began_at + (time.time() - began_at) * speed


class _SmallDisk(HistoryConfig, frozen=True):
    min_free_bytes: ClassVar[int] = 4 << 20


def settings(folder: Path) -> CollectorConfig:
    """Settings with which nothing expires during the run."""
    return CollectorConfig(
        http=HttpConfig(listen="127.0.0.1:0"),
        access=AccessConfig(tokens=str(folder / "tokens.jsonl")),
        history=_SmallDisk(path=str(folder / "disk" / "history.db"), retention_hours=72.0),
    )


async def _serve(folder: Path, speed: float, began_at: float) -> None:
    def wall() -> float:
        return compressed_time(speed, began_at) + float((folder / "offset").read_text() or 0)

    def monotonic() -> float:
        return compressed_time(speed, began_at)

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with running(settings(folder), clock=SteadyClock(wall, monotonic)) as collector:
        print(f"listening on {collector.address.url}", flush=True)
        await stop.wait()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(message)s")
    asyncio.run(_serve(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])))

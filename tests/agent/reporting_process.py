"""A process that reports one simulated hour of a node to a collector.

    python -m tests.agent.reporting_process SPOOL URL BOOT FIRST_TICK LAST_TICK

After each tick whose report is stored it prints the tick and the number of the report. After the last tick it
stays until everything is delivered. Tests kill it.
"""

import asyncio
import math
import sys
from collections.abc import Iterator
from pathlib import Path

from agent.config import DeliveryConfig, ReportingConfig, StorageConfig
from agent.delivery.sender import ReportSender
from agent.reporting.reporter import Reporter
from tests.agent.samples import UNIX_SECONDS, Clock, Container, cpu, node_sample
from tests.waiting import until
from wire.messages import Report

SAMPLE_SECONDS = 3.0


def reports_of(boot: str, first_tick: int, last_tick: int) -> Iterator[tuple[int, Report]]:
    """The reports of the node between two ticks, the same in every run with the same boot."""
    reporter = Reporter("node", boot, ReportingConfig(), SAMPLE_SECONDS)
    clock = Clock()
    clock.advance(first_tick * SAMPLE_SECONDS)
    for tick in range(first_tick, last_tick + 1):
        clock.advance(SAMPLE_SECONDS)
        containers = {
            f"container{number}": Container(used=cpu(0.5 + 0.5 * math.sin(tick / 30 + number)))
            for number in range(5)
        }
        report = reporter.report(node_sample(clock, containers), (), ())
        if report is not None:
            yield tick, report


async def main(spool: str, url: str, boot: str, first_tick: str, last_tick: str) -> None:
    now = int(first_tick) * SAMPLE_SECONDS

    async def sleep(_: float) -> None:
        await asyncio.sleep(0.01)

    sender = ReportSender(
        DeliveryConfig(url=url),
        StorageConfig(directory=str(Path(spool).parent)),
        wall=lambda: UNIX_SECONDS + now,
        monotonic=lambda: now,
        sleep=sleep,
    )
    delivering = asyncio.create_task(sender.run())
    for tick, report in reports_of(boot, int(first_tick), int(last_tick)):
        now = tick * SAMPLE_SECONDS
        sender.enqueue(report)
        await until(lambda: sender._writing_count == 0)
        print(tick, report.sequence, flush=True)
    await until(lambda: len(sender) == 0, timeout_seconds=60)
    delivering.cancel()
    await sender.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

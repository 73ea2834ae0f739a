"""Periodic work in the background. Failures are logged, and do not prevent later runs."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager

from collector.common.errors import HistoryUnavailable, WorkerUnavailable
from wire.errors import UserError

log = logging.getLogger(__name__)


async def repeat(
    work: Callable[[], Awaitable[object]],
    seconds: float,
    name: str,
    *,
    from_start: bool = False,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Run `work` now and every `seconds` after, until this task is cancelled.

    The interval counts from the end of a run; `from_start` counts it from the start. A state that passes is
    logged in one line, any other exception with its traceback.
    """
    loop = asyncio.get_running_loop()
    while True:
        started_at = loop.time()
        try:
            await work()
        except (HistoryUnavailable, WorkerUnavailable, UserError) as error:
            log.warning("%s failed: %s; next try in %g s", name, error, seconds)
        except Exception:
            # No caller waits for this task, so the log is the only place that shows it.
            log.exception("%s failed; next try in %g s", name, seconds)
        await sleep(max(0.0, started_at + seconds - loop.time()) if from_start else seconds)


@asynccontextmanager
async def in_background(*work: Coroutine[object, object, None]) -> AsyncIterator[None]:
    """Run coroutines as tasks while the block runs; at its end, cancel them and wait until they are done."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

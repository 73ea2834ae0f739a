"""Where the collector computes: in one child process, so that nothing that it serves waits for a computation.

A computation is a function of a module with values that can be pickled, or a method of an object that the
worker keeps from one call to the next. Both run in the order of the calls. `Worker` itself runs them in a
thread: tests, and programs that serve nobody, need no other process.
"""

import asyncio
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any, TypeVar, cast

from collector.common.errors import WorkerUnavailable
from collector.common.outages import Dependency, Outages
from collector.common.periodic import in_background
from collector.runtime.handover import Held, Sender, receive, send
from collector.runtime.workplace import Workplace
from collector.snapshot.tables import Snapshot

log = logging.getLogger(__name__)
Result = TypeVar("Result")

ENDED = "the process that computes ended"
_WORKS = "the process that computes works again"
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 30.0
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""It computes on one core: the others serve."""


class Worker:
    """Computes in a thread, one call at a time."""

    def __init__(self) -> None:
        self._workplace = Workplace()
        self._turn = asyncio.Lock()
        self.starts = 0
        """Number of times that the process was started: what it kept before is lost."""
        self.pid: int | None = None

    async def run(self, function: Callable[..., Result], *arguments: object) -> Result:
        """Run a function of a module. Raise what it raises, or `WorkerUnavailable`."""
        (result,) = await self._run(None, function, arguments)
        return cast("Result", result)

    async def run_kept(
        self, kind: type, starts: int, method: Callable[..., Iterator[Result]], *arguments: object
    ) -> list[Result]:
        """Run a method of the kept object of this kind, and return what it yields.

        Raise `WorkerUnavailable` if the process was started again since `starts`.
        """
        if starts != self.starts:
            raise WorkerUnavailable(f"{ENDED}: what it kept is lost")
        return await self._run(kind, method, arguments)

    async def _run(
        self, kind: type | None, function: Callable[..., Any], arguments: Sequence[object]
    ) -> list[Any]:
        async with self._turn:
            return await asyncio.to_thread(lambda: list(self._workplace.run(kind, function, arguments)))


class ChildProcess(Worker):
    """Computes in a child process, which is started again whenever it ends."""

    def __init__(self, outages: Outages) -> None:
        super().__init__()
        self._outages = outages
        self._numbers = count()
        self._waiting: dict[int, tuple[asyncio.Future[list[Any]], list[Any]]] = {}
        self._connection: socket.socket | None = None
        self._sender = Sender()
        self._trusted_at = 0.0
        """When a result shows that the process works: not before, if it has just ended again and again."""
        self._writing = ThreadPoolExecutor(1, thread_name_prefix="worker")

    async def _run(
        self, kind: type | None, function: Callable[..., Any], arguments: Sequence[object]
    ) -> list[Any]:
        connection = self._connection
        if connection is None:
            raise WorkerUnavailable(f"{ENDED}: it is started again within {_LONGEST_PAUSE_SECONDS:g} s")
        loop, number = asyncio.get_running_loop(), next(self._numbers)
        done: asyncio.Future[list[Any]] = loop.create_future()
        # It may fail while the call is still being sent, which fails too.
        done.add_done_callback(lambda each: each.cancelled() or each.exception())
        self._waiting[number] = done, []
        try:
            call = kind, function, arguments
            await loop.run_in_executor(self._writing, _send_call, connection, self._sender, number, call)
            return await done
        except OSError as error:
            raise WorkerUnavailable(f"{ENDED} before a computation: it is started again") from error
        finally:
            self._waiting.pop(number, None)

    async def supervise(self) -> None:
        """Start the process, and again whenever it ends."""
        pause_seconds = 0.0
        self._outages.watch(Dependency.WORKER)
        while True:
            started_at, ended = time.monotonic(), asyncio.Event()
            try:
                connection, process = self._start(ended)
            except (OSError, RuntimeError) as error:
                why = f"it cannot be started: {error}"
            else:
                try:
                    await ended.wait()
                finally:
                    status = self._stop(connection, process)
                why = f"signal {-status}" if status < 0 else f"status {status}"
            problem = f"{ENDED} ({why}): analysis and plans wait until it is started again"
            self._outages.begin(Dependency.WORKER, problem)
            is_early = time.monotonic() - started_at < 2 * _LONGEST_PAUSE_SECONDS
            pause_seconds = max(_FIRST_PAUSE_SECONDS, 2 * pause_seconds * is_early)
            is_repeated = pause_seconds > _FIRST_PAUSE_SECONDS
            self._trusted_at = time.monotonic() + 2 * _LONGEST_PAUSE_SECONDS * is_repeated
            await asyncio.sleep(min(_LONGEST_PAUSE_SECONDS, pause_seconds))

    def _start(self, ended: asyncio.Event) -> tuple[socket.socket, "subprocess.Popen[bytes]"]:
        ours, theirs = socket.socketpair()
        reading = threading.Thread(
            target=self._read,
            args=(ours, ended, asyncio.get_running_loop()),
            name="worker results",
            daemon=True,
        )
        # It closes our end when it ends: at once, if no process takes the other one.
        reading.start()
        with theirs:
            process = subprocess.Popen(  # noqa: S603 - ourselves
                (sys.executable, "-P", "-m", "collector.runtime.worker_process", str(theirs.fileno())),
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                # It finds the modules that this process has found.
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **_ONE_THREAD},
            )
        self.starts += 1
        self.pid, self._connection, self._sender = process.pid, ours, Sender()
        return ours, process

    def _stop(self, connection: socket.socket, process: "subprocess.Popen[bytes]") -> int:
        """End the process, fail what waits for it, and return its status."""
        self.pid = self._connection = None
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        # What it keeps can be lost; one that has ended already keeps its status.
        process.kill()
        status = process.wait()
        for done, _ in self._waiting.values():
            if not done.done():
                done.set_exception(WorkerUnavailable(f"{ENDED} during a computation: it is started again"))
        return status

    def _read(self, connection: socket.socket, ended: asyncio.Event, loop: asyncio.AbstractEventLoop) -> None:
        """Pass results on, in a thread of their own, until the process ends."""
        with connection, suppress(RuntimeError):  # the loop may be closed
            try:
                while True:
                    number, is_last, content = receive(connection)
                    if number is None:
                        name, level, text = content
                        logging.getLogger(name).log(level, "%s", text)
                    elif is_last:
                        loop.call_soon_threadsafe(self._finish, number, content)
                    elif waiting := self._waiting.get(number):
                        waiting[1].append(content)
            except Exception as error:
                if not isinstance(error, OSError | EOFError):
                    log.exception("a result of the process that computes cannot be read")
                loop.call_soon_threadsafe(ended.set)

    def _finish(self, number: int, error: BaseException | None) -> None:
        if time.monotonic() >= self._trusted_at:
            self._outages.end(Dependency.WORKER, _WORKS)
        done, found = self._waiting.get(number, (None, []))
        if done is None or done.done():
            return
        if error is None:
            done.set_result(found)
        else:
            done.set_exception(error)


def _send_call(
    connection: socket.socket,
    sender: Sender,
    number: int,
    call: tuple[type | None, Callable[..., Any], Sequence[Any]],
) -> None:
    """Send a call, after those parts of its snapshots that the process does not have yet."""
    kind, function, arguments = call
    sent: list[Any] = []
    for each in arguments:
        value = each
        if isinstance(each, Snapshot):
            for value in sender.messages(each):
                if not isinstance(value, Held):
                    send(connection, value)
        sent.append(value)
    send(connection, (number, kind, function, sent))


@asynccontextmanager
async def child_process(outages: Outages) -> AsyncIterator[Worker]:
    """Run the process while the block runs."""
    worker = ChildProcess(outages)
    async with in_background(worker.supervise()):
        yield worker

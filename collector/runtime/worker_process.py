"""The child process of `collector.runtime.worker`: computes what it is asked, until the collector is gone."""

import logging
import os
import pickle
import resource
import signal
import socket
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from collector.runtime.handover import Held, Keep, Piece, Receiver, receive, send
from collector.runtime.workplace import Workplace
from wire.errors import UserError

_NICE = 10


def main(descriptor: int) -> None:
    """Compute, in the order of the calls. Signals to the process group are for the collector only."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    limit_process()
    connection = socket.socket(fileno=descriptor)
    messages: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=_read, args=(connection, messages), daemon=True).start()
    workplace, snapshots = Workplace(), Receiver()
    logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=[_ToCollector(connection)])
    while True:
        message = messages.get()
        if isinstance(message, Piece | Keep):
            snapshots.take(message)
        else:
            number, kind, function, arguments = message
            error = None
            try:
                found = [snapshots.get(each) if isinstance(each, Held) else each for each in arguments]
                for result in workplace.run(kind, function, found):
                    send(connection, (number, False, result))
            except Exception as raised:  # noqa: BLE001 - the caller gets it
                error = _portable(raised)
            send(connection, (number, True, error))


class _ToCollector(logging.Handler):
    """Lets the collector log."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__()
        self._connection = connection

    def emit(self, record: logging.LogRecord) -> None:
        send(self._connection, (None, False, (record.name, record.levelno, self.format(record))))


def limit_process() -> None:
    """Let the collector go first: for the CPU, and if memory runs out."""
    half = memory_bytes() // 2
    for limit in (
        lambda: os.nice(_NICE),
        lambda: resource.setrlimit(resource.RLIMIT_DATA, (half, half)),
        lambda: Path("/proc/self/oom_score_adj").write_text("1000"),
    ):
        # A sandbox may forbid this; then the sandbox sets the limits.
        with suppress(OSError, ValueError):
            limit()


def memory_bytes(groups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int:
    """Return the memory of the host, or the least limit of the control groups of this process."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    with suppress(OSError):
        for line in own.read_text().splitlines():
            _, controller, path = line.split(":", 2)
            group = groups / controller / path.lstrip("/")
            for each in (group, *group.parents):
                for name in ("memory.max", "memory.limit_in_bytes"):
                    with suppress(OSError, ValueError):
                        found.append(int((each / name).read_text()))
    return min(found)


def _read(connection: socket.socket, messages: "SimpleQueue[Any]") -> None:
    """Receive while a computation runs. Once the collector is gone, end at once."""
    try:
        while True:
            messages.put(receive(connection))
    except BaseException as error:  # noqa: BLE001 - what is lost cannot be computed
        is_over = isinstance(error, EOFError | OSError)
        if not is_over:
            traceback.print_exc()
        os._exit(0 if is_over else 1)


def _portable(error: Exception) -> Exception:
    """Return an exception that can be raised in the collector, with its traceback if it is a bug."""
    if not isinstance(error, UserError):
        error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    except Exception:  # noqa: BLE001 - whatever it is, its text is known
        kind = UserError if isinstance(error, UserError) else RuntimeError
        return kind(str(error))
    return error


if __name__ == "__main__":
    main(int(sys.argv[1]))

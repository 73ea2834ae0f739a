"""Programs that serve HTTP on a port that the kernel picks."""

import http.client
import json
import subprocess
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from tests.lab.reaper import Reaper
from tests.lab.waiting import eventually

START_SECONDS: Final = 30.0
REQUEST_SECONDS: Final = 30.0
_LOG_TAIL_CHARACTERS: Final = 4000


@dataclass(frozen=True, slots=True)
class Server:
    """A running server. Calls block: in an async test make them with `asyncio.to_thread`."""

    pid: int
    host: str

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    def get_json(self, path: str, parameters: dict[str, str] | None = None) -> Any:
        return json.loads(self.request("GET", f"{path}?{urllib.parse.urlencode(parameters or {})}"))

    def request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """Send a request, and return the response; an error status raises ValueError with its text."""
        connection = http.client.HTTPConnection(self.host, timeout=REQUEST_SECONDS)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        if response.status >= http.HTTPStatus.BAD_REQUEST:
            raise ValueError(f"{method} {path} returned {response.status}: {text.decode()}")
        return text


@contextmanager
def serving(reaper: Reaper, command: list[str], log: Path, ready_path: str) -> Iterator[Server]:
    """Start a server on port 0, and wait until it is ready.

    The kernel picks the port, so that no other program can take it first, and the server's own sockets
    show which one it is. If the block fails, the end of the server's log is part of the error.
    """
    process = reaper.start(command, log=log)
    try:
        server = Server(process.pid, eventually(lambda: _listening(process), START_SECONDS))
        eventually(lambda: _is_ready(server, ready_path), START_SECONDS)
        yield server
    except BaseException as error:
        error.add_note(f"output of {command[0]}:\n{log.read_text()[-_LOG_TAIL_CHARACTERS:]}")
        raise


def _listening(process: subprocess.Popen[bytes]) -> str:
    """Return the address that the process listens on, or an empty string."""
    if process.poll() is not None:
        raise RuntimeError(f"it ended with status {process.returncode} instead of starting")
    try:
        sockets = psutil.Process(process.pid).net_connections("tcp")
    except psutil.Error:  # it has just ended; the next poll reports the status
        return ""
    listening = (socket.laddr for socket in sockets if socket.status == psutil.CONN_LISTEN)
    return next((f"{address.ip}:{address.port}" for address in listening), "")


def _is_ready(server: Server, path: str) -> bool:
    try:
        server.request("GET", path)
    except ValueError:
        return False
    return True

"""The other end of the socket that a service talks to: what systemd would hear."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Listener:
    """Hears what is sent to a socket of its own."""

    def __init__(self, channel: socket.socket, path: Path) -> None:
        self._channel = channel
        self.environment = {"NOTIFY_SOCKET": str(path)}

    def received(self) -> list[str]:
        """Everything that came in since this was last asked."""
        messages = []
        while True:
            try:
                messages.append(self._channel.recv(1000).decode())
            except BlockingIOError:
                return messages


@contextmanager
def listening(folder: Path) -> Iterator[Listener]:
    """Listen while the block runs."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as channel:
        channel.bind(str(folder / "notify"))
        yield Listener(channel, folder / "notify")

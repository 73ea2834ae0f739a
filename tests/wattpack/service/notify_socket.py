"""A socket that receives the notifications of a service in place of systemd."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class NotifySocket:
    """Receives the notifications that a service sends."""

    def __init__(self, channel: socket.socket, path: Path) -> None:
        self._channel = channel
        self.environment = {"NOTIFY_SOCKET": str(path)}

    def received(self) -> list[str]:
        """All messages since the last call."""
        messages = []
        while True:
            try:
                messages.append(self._channel.recv(1000).decode())
            except BlockingIOError:
                return messages


@contextmanager
def notify_socket(folder: Path) -> Iterator[NotifySocket]:
    """Receive notifications while the block runs."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as channel:
        channel.bind(str(folder / "notify"))
        yield NotifySocket(channel, folder / "notify")

"""The process that forwards packets between the lab's hosts with the delay of each pair.

`tests.lab.hosts.link` starts it as a script of its own, with only the standard library. Its argument is a
JSON object: `devices`, the names of the TUN devices to make; `addresses`, the IPv4 address behind each;
`one_way_seconds`, the delay of each pair. It prints the line `ready` when the devices exist; they end with
the process. Each line on standard input replaces `one_way_seconds`.
"""

import fcntl
import json
import os
import select
import socket
import struct
import sys
import time
from collections import deque
from typing import Any, Final

_TUNSETIFF: Final = 0x400454CA
_IFF_TUN: Final = 0x0001
_IFF_NO_PI: Final = 0x1000
_PACKET_BYTES: Final = 65536
_BATCH: Final = 64
"""Number of packets that are read from one device before the others."""
_IPV4: Final = 4
_FIRST: Final = -20
"""The nice value with the highest priority."""

Queue = deque[tuple[float, int, bytes]]
"""Packets with the same delay, in order of time: the time, the target device, the packet."""


def open_device(name: str) -> int:
    """Create a TUN device, which exists while its descriptor is open."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    return device


class Router:
    """The devices, the pending packets, and the delays."""

    def __init__(self, devices: list[int], addresses: list[str]) -> None:
        self._devices = devices
        self._addresses = [socket.inet_aton(address) for address in addresses]
        self._routes: dict[int, dict[bytes, tuple[float, Queue, int]]] = {}
        self._queues: dict[float, Queue] = {}

    def set_delays(self, one_way_seconds: list[list[float]]) -> None:
        """Change the delays. Pending packets keep theirs."""
        for row in one_way_seconds:
            for delay in row:
                self._queues.setdefault(delay, deque())
        self._routes = {
            device: {
                address: (delay, self._queues[delay], target)
                for address, target, delay in zip(self._addresses, self._devices, row, strict=True)
            }
            for device, row in zip(self._devices, one_way_seconds, strict=True)
        }

    def receive(self, device: int) -> None:
        """Queue the packets of a host; drop those to an unknown address."""
        routes = self._routes[device]
        now = time.monotonic()
        for _ in range(_BATCH):
            try:
                packet = os.read(device, _PACKET_BYTES)
            except OSError:  # there is no more, or the host's end is down
                return
            if packet[0] >> 4 != _IPV4:
                continue
            if (route := routes.get(packet[16:20])) is not None:
                delay, queue, target = route
                queue.append((now + delay, target, packet))

    def deliver(self) -> float | None:
        """Send the packets that are due; return the seconds until the next one, or None."""
        now = time.monotonic()
        nearest = None
        for queue in self._queues.values():
            while queue and queue[0][0] <= now:
                _, target, packet = queue.popleft()
                try:
                    os.write(target, packet)
                except OSError:  # the host's end is down: the packet is lost
                    continue
            if queue and (nearest is None or queue[0][0] < nearest):
                nearest = queue[0][0]
        return None if nearest is None else max(0.0, nearest - time.monotonic())


def main() -> None:
    """Route until standard input ends, also because the test run was killed."""
    settings: dict[str, Any] = json.loads(sys.argv[1])
    devices = [open_device(name) for name in settings["devices"]]
    router = Router(devices, settings["addresses"])
    router.set_delays(settings["one_way_seconds"])
    # A busy machine must not slow the network down.
    os.setpriority(os.PRIO_PROCESS, 0, _FIRST)
    print("ready", flush=True)
    # Unbuffered, because select does not see lines in a buffer.
    changes = open(0, "rb", buffering=0)  # noqa: SIM115 - it stays open, and is a descriptor
    ends = [changes.fileno(), *devices]
    timeout: float | None = None
    while True:
        # Not epoll, whose timeouts are whole milliseconds.
        readable, _, _ = select.select(ends, (), (), timeout)
        for end in readable:
            if end != changes.fileno():
                router.receive(end)
            elif line := changes.readline():
                router.set_delays(json.loads(line))
            else:
                return
        timeout = router.deliver()


if __name__ == "__main__":
    main()

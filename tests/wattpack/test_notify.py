import socket
from pathlib import Path

from wattpack.notify import notify


def test_the_state_reaches_the_socket_that_systemd_names(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "notify"))
        notify("READY=1", {"NOTIFY_SOCKET": str(tmp_path / "notify")})
        assert channel.recv(100) == b"READY=1"


def test_an_abstract_socket_is_meant_by_its_at_sign() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(f"\0wattpack-test-{id(channel)}")
        notify("STOPPING=1", {"NOTIFY_SOCKET": f"@wattpack-test-{id(channel)}"})
        assert channel.recv(100) == b"STOPPING=1"


def test_nothing_is_sent_where_nobody_asked() -> None:
    notify("READY=1", {})
    notify("READY=1", {"NOTIFY_SOCKET": "vsock:2:1"})

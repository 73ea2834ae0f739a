"""Listen addresses: `127.0.0.1:8640`, `[::1]:9640`, `localhost:0`."""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from wire.errors import UserError

COLLECTOR_DEFAULT = "127.0.0.1:8640"
AGENT_DEFAULT = "127.0.0.1:9640"
_HIGHEST_PORT = 65535


def parse_ip(text: str) -> IPv4Address | IPv6Address | None:
    """An IP address; None for a name, or anything else."""
    try:
        return ip_address(text)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port."""

    host: str
    port: int
    tls: bool = False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect to it."""
        address = parse_ip(self.host)
        return self.host == "localhost" if address is None else address.is_loopback


def parse_address(text: str, key: str = "") -> Address:
    """Parse `host:port`; an IPv6 host is in brackets. Raises `UserError`, which names the setting `key`."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    bare_ipv6 = ":" in host and not text.startswith("[")
    if (
        not colon
        or not host
        or bare_ipv6
        or not port.isascii()
        or not port.isdigit()
        or int(port) > _HIGHEST_PORT
    ):
        setting = f"{key}: " if key else ""
        raise UserError(
            f"{setting}{text!r} is not an address: write host:port, such as {COLLECTOR_DEFAULT} or [::1]:8640"
        )
    return Address(host, int(port))

"""Where a container is probed: its label, and its address from the engine. Pure."""

import ipaddress
import re
from dataclasses import dataclass

import msgspec

_LABEL = re.compile(r"(?P<port>\d{1,5})(?P<path>/[!-~]*)?")
_MAX_PORT = 65_535
_MAX_PATH_LENGTH = 512
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class ProbeTarget:
    """A port and path of a container."""

    port: int
    path: str

    def url(self, address: str) -> str:
        """Return the URL at an IP address."""
        host = f"[{address}]" if ":" in address else address
        return f"http://{host}:{self.port}{self.path}"


def parse_target(label: str) -> ProbeTarget | None:
    """Parse a label such as `8080` or `8080/health`; None if it is invalid."""
    found = _LABEL.fullmatch(label.strip())
    if found is None or len(found["path"] or "") > _MAX_PATH_LENGTH:
        return None
    port = int(found["port"])
    return ProbeTarget(port, found["path"] or "/") if 0 < port <= _MAX_PORT else None


class _Endpoint(msgspec.Struct, frozen=True):
    address: str = msgspec.field(name="IPAddress", default="")
    network: str = msgspec.field(name="NetworkID", default="")


class _NetworkSettings(msgspec.Struct, rename="pascal", frozen=True):
    networks: dict[str, _Endpoint] = {}


class _HostConfig(msgspec.Struct, rename="pascal", frozen=True):
    network_mode: str = ""


class _Inspected(msgspec.Struct, rename="pascal", frozen=True):
    network_settings: _NetworkSettings = _NetworkSettings()
    host_config: _HostConfig = _HostConfig()


class _Network(msgspec.Struct, rename="pascal", frozen=True):
    driver: str = ""


_decoder = msgspec.json.Decoder(_Inspected)
_network_decoder = msgspec.json.Decoder(_Network)


@dataclass(frozen=True, slots=True)
class ContainerAddress:
    """An address of a container, and its network; the network is None if it is that of the host."""

    address: str
    network: str | None


def parse_addresses(body: bytes) -> tuple[ContainerAddress, ...]:
    """Return the addresses of a container from `GET /containers/{id}/json`; none without a network.

    With host networking, its address is the loopback address. Raise `MsgspecError`.
    """
    inspected = _decoder.decode(body)
    networks = inspected.network_settings.networks
    if inspected.host_config.network_mode == "host" or "host" in networks:
        return (ContainerAddress(_LOOPBACK, None),)
    found = []
    for _, each in sorted(networks.items()):
        try:
            address = ipaddress.ip_address(each.address)
        except ValueError:
            continue
        if each.network and not (address.is_loopback or address.is_link_local or address.is_multicast):
            found.append(ContainerAddress(str(address), each.network))
    return tuple(found)


def is_bridge(body: bytes) -> bool:
    """Whether `GET /networks/{id}` describes a bridge of this host. Raise `MsgspecError`.

    The host has no route to addresses in an overlay: a request to one may reach another machine.
    """
    return _network_decoder.decode(body).driver == "bridge"

"""The mesh of nodes that measure the round-trip times between them."""

from collections.abc import Callable

from agent.features import FeatureSettings
from wire.address import Address, parse_address, parse_ip
from wire.errors import UserError

MESH_PORT = 9641


class MeshConfig(FeatureSettings, frozen=True):
    """Round-trip times to other nodes, measured by UDP probes."""

    enabled: bool = False
    """Whether to measure round-trip times to other nodes, and to reply to their probes. The collector assigns
    peers and keys: set `mesh.enabled` there too."""
    listen: str = f"0.0.0.0:{MESH_PORT}"
    """UDP address for probes, IP:port. Open this port between the nodes."""
    advertise: str = ""
    """IP address, or IP:port, at which other nodes reach this one. Empty uses the address from which the
    collector receives requests of this node, and the port of `listen`."""

    def __post_init__(self) -> None:
        if not _has_ip(lambda: parse_address(self.listen)):
            raise UserError(
                f"mesh.listen: {self.listen!r} is not an IP address with a port: write one such as"
                f" 0.0.0.0:{MESH_PORT}"
            )
        if self.advertise and not _has_ip(lambda: self.advertised(0)):
            raise UserError(
                f"mesh.advertise: {self.advertise!r} is not an IP address: write one such as 10.0.0.5 or"
                f" 10.0.0.5:{MESH_PORT}"
            )

    def advertised(self, bound_port: int) -> Address:
        """Where peers reach this node; without a host, the collector fills it in."""
        if not self.advertise:
            return Address("", bound_port)
        address = parse_ip(self.advertise.strip("[]"))
        return parse_address(self.advertise) if address is None else Address(str(address), bound_port)


def _has_ip(parse: Callable[[], Address]) -> bool:
    try:
        return parse_ip(parse().host) is not None
    except UserError:
        return False

"""Scenes as a source would give them, for tests that only need some."""

from wattpack.top.scene import Container, Node, OpenAlert, Scene
from wire.messages import ContainerPower, Gap, NodePower, PowerSource, Pressure
from wire.resources import Quantities, Resource

GIBIBYTE = 1 << 30
AT = 1_700_000_000.0


def node(name: str = "web1", *, state: str = "up", cores: float = 1.5) -> Node:
    return Node(
        name=name,
        state=state,
        used=Quantities(cores, 2 * GIBIBYTE, 4096.0, 12_500_000.0),
        capacity=Quantities(4.0, 8 * GIBIBYTE, None, 125_000_000.0),
        pressure=Pressure(0.61, 0.02, 0.3),
        disk_busy_ratio=0.34,
        power=NodePower(41.2, 38.0, 2.0, PowerSource.PRIOR, 0.5, 120.0),
        gaps=(Gap("RAPL", "this is a virtual machine"),),
    )


def container(
    name: str, used: Quantities | None = None, *, watts: float | None = 2.0, service: str | None = None
) -> Container:
    return Container(
        node="web1",
        id=name.encode().hex().ljust(64, "0"),
        name=name,
        service=service,
        used=used or Quantities(0.5, GIBIBYTE // 4, 2048.0, None),
        power=None if watts is None else ContainerPower(watts, PowerSource.PRIOR, 0.6, 6.0),
    )


def alert(evidence: str = "CPU at 97 % of 4 cores for 12 s", on: str = "web1") -> OpenAlert:
    return OpenAlert(node=on, resource=Resource.CPU, evidence=evidence, opened_at=AT)


def scene(*containers: Container, nodes: tuple[Node, ...] = (), alerts: tuple[OpenAlert, ...] = ()) -> Scene:
    return Scene(at=AT, nodes=nodes or (node(),), containers=containers, alerts=alerts)

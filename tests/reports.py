"""Reports as an agent makes them, for tests that need any report."""

from wire.messages import (
    ContainerPower,
    ContainerState,
    Gap,
    Heartbeat,
    NodePower,
    NodeState,
    PowerSource,
    Pressure,
    Report,
)
from wire.resources import Quantities

GIBIBYTE = 1 << 30


def container(name: str, cpu_cores: float | None = 0.5, watts: float = 2.0) -> ContainerState:
    return ContainerState(
        id=name.encode().hex().ljust(64, "0"),
        name=name,
        runtime="docker",
        cpu_seconds_total=123.5,
        used=Quantities(
            cpu_cores=cpu_cores,
            memory_bytes=GIBIBYTE // 4,
            disk_bytes_per_second=2048.0,
            network_bytes_per_second=None,
        ),
        window_seconds=45.0,
        limit=Quantities(cpu_cores=1.0, memory_bytes=GIBIBYTE),
        pressure=Pressure(cpu_ratio=0.25, memory_ratio=0.0, disk_ratio=0.0),
        power=ContainerPower(watts=watts, source=PowerSource.PRIOR, error_ratio=0.6, joules_total=6.0),
        image="shop:1",
        service="shop",
    )


def report(*containers: ContainerState, sequence: int = 1, node: str = "node1") -> Report:
    """Make a heartbeat with the state of a node and all of its containers."""
    dynamic = sum(each.power.watts for each in containers if each.power)
    return Report(
        node=node,
        boot="b00t",
        sequence=sequence,
        at=1_700_000_000.0 + 3 * sequence,
        state=NodeState(
            used=Quantities(cpu_cores=1.5, memory_bytes=2 * GIBIBYTE, disk_bytes_per_second=4096.0),
            capacity=Quantities(cpu_cores=4.0, memory_bytes=8 * GIBIBYTE),
            window_seconds=30.0,
            pressure=Pressure(cpu_ratio=0.1),
            power=NodePower(
                watts=40.0 + dynamic,
                idle_watts=38.0,
                system_watts=2.0,
                source=PowerSource.PRIOR,
                error_ratio=0.5,
                joules_total=120.0,
            ),
            gaps=(Gap("RAPL", "this is a virtual machine"),),
        ),
        containers=containers,
        heartbeat=Heartbeat(agent_version="0.1.0", sample_seconds=3.0, beacon_seconds=30.0),
    )

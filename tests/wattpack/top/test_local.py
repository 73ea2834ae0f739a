from contextlib import aclosing
from pathlib import Path

import pytest

from agent.config import AgentConfig, DockerConfig
from agent.main import full_report
from agent.sampling.node_sample import ContainerSample, NodeSample
from agent.sampling.rates import ContainerRates, HostRates
from agent.sources.docker import ContainerInfo
from wattpack.top.local import local_scenes
from wattpack.top.scene import scene_of
from wire.messages import Alert, ContainerPower, Gap, NodePower, PowerSource, Pressure
from wire.resources import Quantities, Resource


def test_sample_becomes_a_scene_of_one_node() -> None:
    power = NodePower(41.2, 38.0, 2.0, PowerSource.RAPL, 0.1, 120.0)
    rates = HostRates(
        unix_seconds=5.0,
        interval_seconds=3.0,
        used=Quantities(1.0),
        capacity=Quantities(4.0),
        pressure=Pressure(0.5),
        learned_capacities=(Resource.DISK,),
        disk_busy_ratio=0.25,
    )
    share = ContainerPower(1.2, PowerSource.RAPL, 0.2, 3.0)
    web = ContainerSample(
        ContainerRates("f" * 64, "docker", 1.0, Quantities(0.5), Quantities(2.0), Pressure(0.1)),
        ContainerInfo("web", service="shop"),
        share,
    )
    alert = Alert(Resource.CPU, 4.0, "CPU at 97 %", container="f" * 64, name="web")
    sample = NodeSample(1.0, rates, power, (web,), (Gap("RAPL", "why"),))
    seen = scene_of(full_report("here", sample), [alert])

    (node,), (container,), (shortage,) = seen.nodes, seen.containers, seen.alerts
    assert (node.name, node.state, node.used, node.capacity) == ("here", "up", rates.used, rates.capacity)
    assert (node.pressure, node.disk_busy_ratio, node.power) == (rates.pressure, 0.25, power)
    assert (node.learned_capacities, node.gaps) == ((Resource.DISK,), (Gap("RAPL", "why"),))
    assert (container.node, container.name, container.service) == ("here", "web", "shop")
    assert (container.used, container.limit) == (web.rates.used, web.rates.limit)
    assert (container.pressure, container.power) == (web.rates.pressure, share)
    assert (shortage.node, shortage.evidence, shortage.name) == ("here", "CPU at 97 %", "web")
    assert seen.at == 5.0


@pytest.mark.parametrize("asks_for_names", [True, False])
async def test_local_scenes_without_agent_and_engine(tmp_path: Path, *, asks_for_names: bool) -> None:
    docker = DockerConfig(socket=str(tmp_path / "absent.sock") if asks_for_names else "")
    config = AgentConfig(node="here", docker=docker)
    async with aclosing(local_scenes(config, 0.2)) as scenes:
        earlier, later = await anext(scenes), await anext(scenes)
    assert later.at > earlier.at
    (node,) = later.nodes
    assert node.name == "here"
    assert node.used.cpu_cores is not None
    assert node.power is not None
    assert node.power.watts > 0
    assert any(gap.what == "container names" for gap in node.gaps) is asks_for_names

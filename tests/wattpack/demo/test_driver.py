import pytest

from collector.drivers.interface import DriverError
from collector.policies.actions import Cut, Move, PowerOff
from wattpack.demo.cluster import DemoCluster
from wattpack.demo.driver import DemoDriver
from wattpack.demo.shop import make_shop
from wire.resources import Quantities

NOW = 1_790_000_000.0


def make() -> tuple[DemoCluster, DemoDriver]:
    cluster = DemoCluster(make_shop(7, 6, 60), NOW)
    return cluster, DemoDriver(cluster, lambda: NOW, move_seconds=0.0)


async def test_the_view_lists_all_nodes_services_and_containers() -> None:
    cluster, driver = make()
    view = await driver.view()
    assert sum(each.replicas for each in view.services) == len(view.tasks) == 60
    assert [each.name for each in view.nodes if not each.ready] == [
        cluster.shop.nodes[cluster.shop.down_node].name
    ]
    assert any(each.stays for each in view.services)


async def test_a_move_is_carried_out_and_undone() -> None:
    cluster, driver = make()
    place = cluster.places()[0]
    source, target = (cluster.shop.nodes[row].name for row in (place.node, (place.node + 1) % 6))
    move = Move(task=place.id, node=source, target=target, reasons=())
    done = await driver.carry_out(move)
    assert [cluster.places()[0].id] == list(done.containers)
    assert cluster.shop.nodes[cluster.places()[0].node].name == target
    with pytest.raises(DriverError, match="no longer runs"):
        await driver.carry_out(move)
    await driver.undo(move, done)
    assert cluster.shop.nodes[cluster.places()[0].node].name == source


async def test_limits_are_cut_and_restored() -> None:
    cluster, driver = make()
    before = cluster.limit_of(0)
    cut = Cut(task=cluster.places()[0].id, node="", allocated=Quantities(cpu_cores=0.125), reasons=())
    done = await driver.carry_out(cut)
    assert cluster.limit_of(0).cpu_cores == 0.125
    await driver.undo(cut, done)
    assert cluster.limit_of(0) == before


async def test_what_the_demo_cannot_do_is_an_error_of_the_driver() -> None:
    _, driver = make()
    switch = PowerOff(node="fra-edge-01", reasons=())
    with pytest.raises(DriverError, match="the demo cannot switch fra-edge-01 off"):
        await driver.carry_out(switch)
    with pytest.raises(DriverError, match="creates no services"):
        await driver.hold({"fra-edge-01": 2})
    assert await driver.release() == await driver.hold_back(()) == ()

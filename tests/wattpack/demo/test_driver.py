import pytest

from collector.act.drivers.interface import DriverError
from collector.decide.policies.actions import Cut, Move, PowerOff, Scale
from wattpack.demo.cluster import DemoCluster
from wattpack.demo.run import DemoDriver
from wattpack.demo.shop import make_shop
from wire.resources import Quantities

ELASTIC, OPTIONAL = "search_suggest", "data_dashboards"
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


def scale(service: str, replicas: int, before: int, *nodes: str, sheds: bool = False) -> Scale:
    return Scale(
        service=service, replicas=replicas, replicas_before=before, nodes=nodes, sheds=sheds, reasons=()
    )


async def nodes_of(driver: DemoDriver, service: str) -> dict[str, str]:
    """The node of each container of a service, by id."""
    return {each.container: each.node for each in (await driver.view()).tasks if each.service == service}


async def test_an_elastic_service_is_scaled_to_where_it_is_asked_to_and_back() -> None:
    cluster, driver = make()
    before = await nodes_of(driver, ELASTIC)
    count = len(before)
    chosen = cluster.shop.nodes[1].name
    action = scale(ELASTIC, count + 2, count, chosen, chosen)
    done = await driver.carry_out(action)
    after = await nodes_of(driver, ELASTIC)
    assert set(done.containers) == set(after) > set(before)
    assert {after[each] for each in after.keys() - before.keys()} == {chosen}
    assert chosen in done.what
    (view,) = (each for each in (await driver.view()).services if each.name == ELASTIC)
    assert view.replicas == count + 2
    assert view.limit.cpu_cores is not None
    assert (await driver.carry_out(action)).nothing_to_do
    await driver.undo(action, done)
    assert len(await nodes_of(driver, ELASTIC)) == count
    await driver.undo(action, done)
    assert len(await nodes_of(driver, ELASTIC)) == count


async def test_the_fullest_node_loses_replicas_first_and_new_ones_spread_over_nodes_that_are_up() -> None:
    cluster, driver = make()
    names = [each.name for each in cluster.shop.nodes]
    crowded = names[1]
    await driver.carry_out(scale(ELASTIC, 1, 2))
    await driver.carry_out(scale(ELASTIC, 4, 1, *[crowded] * 3))
    await driver.carry_out(scale(ELASTIC, 2, 4))
    assert len(set((await nodes_of(driver, ELASTIC)).values())) == 2
    await driver.carry_out(scale(ELASTIC, 5, 2))
    spread = (await nodes_of(driver, ELASTIC)).values()
    assert len(set(spread)) == 5
    assert names[cluster.shop.down_node] not in spread


async def test_an_optional_service_stops_and_returns_to_its_data() -> None:
    _, driver = make()
    before = await nodes_of(driver, OPTIONAL)
    stop = scale(OPTIONAL, 0, len(before), sheds=True)
    done = await driver.carry_out(stop)
    assert done.containers == ()

    async def stopped_replicas() -> int:
        (view,) = (each for each in (await driver.view()).services if each.name == OPTIONAL)
        return view.stopped_replicas

    assert await stopped_replicas() == len(before)
    assert not await nodes_of(driver, OPTIONAL)
    await driver.carry_out(scale(OPTIONAL, len(before), 0, sheds=True))
    after = await nodes_of(driver, OPTIONAL)
    assert await stopped_replicas() == 0
    assert not after.keys() & before.keys()
    assert sorted(after.values()) == sorted(before.values())
    await driver.carry_out(stop)
    await driver.undo(stop, done)
    assert await stopped_replicas() == 0


async def test_more_replicas_than_the_demo_has_are_an_error_of_the_driver() -> None:
    _, driver = make()
    with pytest.raises(DriverError, match="has 20 containers of search_suggest at most"):
        await driver.carry_out(scale(ELASTIC, 21, 2))
    with pytest.raises(DriverError, match="has 0 containers of none at most"):
        await driver.carry_out(scale("none", 1, 0))


async def test_what_the_demo_cannot_do_is_an_error_of_the_driver() -> None:
    _, driver = make()
    switch = PowerOff(node="fra-edge-01", reasons=())
    with pytest.raises(DriverError, match="the demo cannot switch fra-edge-01 off"):
        await driver.carry_out(switch)
    with pytest.raises(DriverError, match="starts no services"):
        await driver.hold({"fra-edge-01": 2})
    assert await driver.release() == await driver.hold_back(()) == ()

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.bottlenecks.indicators import HYSTERESIS_RATIO
from agent.config import BottleneckConfig
from collector.common.arrays import Rows
from collector.snapshot.tables import NOWHERE
from powermodels.attribution.split import split
from powermodels.common.interface import Load, Terms
from wattpack.demo.agents import DemoAgents
from wattpack.demo.cluster import DOWN_SECONDS, DemoCluster
from wattpack.demo.load import (
    BURST_BEGAN_SECONDS,
    SERVICE_SECONDS,
    SURGE_AFTER_SECONDS,
    SURGE_EVERY_SECONDS,
    SURGE_SECONDS,
    DemoLoad,
    response_seconds,
)
from wattpack.demo.shop import make_shop
from wattpack.demo.tables import SERVICES, delay_seconds
from wire.messages import PowerSource
from wire.resources import Quantities

NOW = 1_790_000_000.0


def test_the_same_seed_makes_the_same_shop() -> None:
    one, other, another = (make_shop(seed, 20, 200) for seed in (3, 3, 4))
    assert one.nodes == other.nodes
    assert one.containers == other.containers
    assert np.array_equal(one.placement, other.placement)
    assert np.array_equal(one.levels, other.levels)
    assert not np.array_equal(one.placement, another.placement)


@settings(max_examples=30, deadline=None)
@given(nodes=st.integers(1, 60), containers=st.integers(1, 900), seed=st.integers(0, 2**63 - 1))
def test_a_shop_has_the_size_that_is_asked_for(nodes: int, containers: int, seed: int) -> None:
    shop = make_shop(seed, nodes, containers)
    assert len({each.name for each in shop.nodes}) == nodes
    running = shop.placement != NOWHERE
    assert running.sum() == sum(shop.replicas.values()) == containers
    assert len({each.name for each in shop.containers}) == len(shop.containers)
    assert all(each.kind.replicas_max for each in np.array(shop.containers)[~running])
    assert shop.placement[running].min() >= 0
    assert shop.placement.max() < nodes


def test_the_default_shop_shows_every_kind_of_thing() -> None:
    shop = make_shop(7, 20, 200)
    assert {each.machine.source for each in shop.nodes} == {
        PowerSource.RAPL,
        PowerSource.MODEL,
        PowerSource.PRIOR,
        PowerSource.IPMI,
    }
    assert set(shop.replicas) == {each.name for each in SERVICES}
    assert min(shop.replicas.values()) > 1
    labels = {(key, value) for each in shop.containers for key, value in each.kind.labels.items()}
    assert {("wattpack.slo", "gold"), ("wattpack.app", "shop"), ("wattpack.move", "never")} <= labels
    assert {value for key, value in labels if key == "wattpack.class"} == {"2", "3", "4"}
    assert {("wattpack.elastic", "250ms"), ("wattpack.optional", "true")} <= labels


def test_only_the_first_of_several_shops_is_elastic_and_optional() -> None:
    shop = make_shop(7, 40, 800)
    controlled = {each.service for each in shop.containers if each.kind.replicas_max or each.kind.is_optional}
    assert controlled == {"search_suggest", "data_dashboards"}
    assert {"acorn-search_suggest", "acorn-data_dashboards"} <= shop.replicas.keys()


def test_zones_are_further_apart_than_nodes_of_one() -> None:
    assert delay_seconds("fra", "fra") < delay_seconds("ams", "fra") == delay_seconds("fra", "ams")


def test_watts_are_split_as_attribution_does() -> None:
    shop = make_shop(7, 6, 40)
    load = DemoLoad(shop, NOW)
    moment = load.at(NOW - 7200, shop.placement)
    for node in range(len(shop.nodes)):
        rows = np.flatnonzero(shop.placement == node)
        loads = {str(row): Load(*(moment.used[row] / load.capacity[node])) for row in rows}
        terms = Terms(moment.idle_watts[node], *moment.terms[node])
        parts = split(terms, Load(*(moment.by_node[node] / load.capacity[node])), loads)
        assert moment.watts[rows] == pytest.approx([parts.containers[str(row)] for row in rows])
        assert moment.node_watts[node] == pytest.approx(
            parts.idle_watts + parts.system_watts + sum(parts.containers.values())
        )


def test_a_burst_fills_one_node_and_moves_with_its_containers() -> None:
    shop = make_shop(7, 20, 200)
    load = DemoLoad(shop, NOW)
    before, during = (
        load.at(NOW - BURST_BEGAN_SECONDS + at, shop.placement).by_node[:, 0] / load.capacity[:, 0]
        for at in (-60.0, 60.0)
    )
    (node,) = np.flatnonzero(during > 0.95)
    assert before[node] < 0.9
    rows = np.flatnonzero(shop.placement == node)
    elsewhere = shop.placement.copy()
    elsewhere[rows[np.argmax(shop.levels[rows, 0])]] = np.argmin(during)
    after = load.at(NOW - BURST_BEGAN_SECONDS + 60.0, elsewhere).by_node[node, 0] / load.capacity[node, 0]
    assert after < during[node]


def test_replicas_share_the_load_of_their_service() -> None:
    shop = make_shop(7, 20, 200)
    load = DemoLoad(shop, NOW)
    rows, few = shop.rows["search_suggest"], shop.placement
    many = few.copy()
    many[rows] = 0
    peak = NOW + 150
    crowded, relaxed = load.at(peak, few), load.at(peak, many)
    assert crowded.busy[rows].max() > 2 * relaxed.busy[rows].max() > 0
    assert crowded.used[rows, 0].max() <= (shop.limit(rows[0]).cpu_cores or 0.0) + 1e-9
    assert not crowded.busy[np.setdiff1d(np.arange(len(few)), rows)].any()
    assert load.at(NOW + 450, few).busy[rows].max() < load.at(NOW - 60, few).busy[rows].max()
    nowhere = few.copy()
    nowhere[rows] = NOWHERE
    assert not load.at(peak, nowhere).used[rows].any()
    assert not load.at(peak, nowhere).watts[rows].any()


def test_a_job_of_the_databases_leaves_room_only_without_the_optional_service() -> None:
    shop = make_shop(7, 20, 200)
    load = DemoLoad(shop, NOW)
    without = shop.placement.copy()
    without[shop.rows["data_dashboards"]] = NOWHERE
    cores = load.capacity[shop.surge_node, 0]

    def used(at: float, node_of: Rows) -> float:
        return float(load.at(NOW + at, node_of).by_node[shop.surge_node, 0] / cores)

    during = SURGE_AFTER_SECONDS + 60
    assert used(SURGE_AFTER_SECONDS - 60, shop.placement) < 0.6
    settings = BottleneckConfig()
    assert used(during, shop.placement) > settings.usage_ratio
    assert used(during, without) < settings.usage_ratio - HYSTERESIS_RATIO
    assert used(SURGE_AFTER_SECONDS + SURGE_SECONDS + 60, shop.placement) < 0.6
    assert used(during + SURGE_EVERY_SECONDS, shop.placement) > settings.usage_ratio


def test_response_times_grow_with_the_load_of_a_replica() -> None:
    means = [response_seconds(busy, 4000, np.random.default_rng(1)).mean() for busy in (0.0, 0.5, 0.9, 3.0)]
    assert means[:3] == pytest.approx([SERVICE_SECONDS, 2 * SERVICE_SECONDS, 10 * SERVICE_SECONDS], rel=0.1)
    assert means[3] > means[2]


def test_agents_report_the_response_times_of_elastic_containers_on_their_nodes() -> None:
    cluster = DemoCluster(make_shop(7, 20, 200), NOW)
    shop, agents = cluster.shop, DemoAgents(cluster, 5.0)
    nodes = {shop.nodes[node].name for node in shop.placement[shop.rows["search_suggest"]] if node != NOWHERE}
    first = agents.sample(NOW, 5.0)
    assert {each.node for each in first if each.probes} == nodes
    assert not any(each.probes for each in agents.sample(NOW + 5, 5.0))
    later = agents.sample(NOW + 10, 5.0)
    probed = {probe.container for each in later for probe in each.probes}
    assert probed == {
        place.id for row, place in cluster.places().items() if row in shop.rows["search_suggest"]
    }
    requests = sum(probe.seconds.count for each in later for probe in each.probes)
    assert requests == 10 * shop.replicas["search_suggest"]


def test_the_nodes_of_a_cluster_are_sampled_with_watts_that_add_up() -> None:
    cluster = DemoCluster(make_shop(7, 20, 200), NOW)
    samples = dict(cluster.sample(NOW, 5.0))
    assert samples.keys() == set(range(20)) - {cluster.shop.down_node}
    assert cluster.shop.down_node in dict(cluster.sample(NOW - DOWN_SECONDS - 1, 5.0))
    for sample in samples.values():
        power = sample.power
        assert power is not None
        containers = sum(each.power.watts for each in sample.containers if each.power is not None)
        assert power.watts == pytest.approx(power.idle_watts + power.system_watts + containers)
        assert power.joules_total > 0
        for each in sample.containers:
            assert each.rates.used.memory_bytes is not None
            assert each.rates.limit.memory_bytes is not None
            assert each.rates.used.memory_bytes < each.rates.limit.memory_bytes


def test_a_moved_container_has_a_new_id_on_its_new_node() -> None:
    cluster = DemoCluster(make_shop(7, 4, 30), NOW)
    before = cluster.places()[0]
    target = (before.node + 1) % 4
    new = cluster.move(0, target, NOW + 1)
    assert new != before.id
    assert cluster.places()[0].node == target
    ids = {node: {each.id for each in sample.containers} for node, sample in cluster.sample(NOW - 3000, 5.0)}
    assert new in ids[target]
    assert before.id not in ids[before.node]
    cluster.limit(0, Quantities(cpu_cores=0.25))
    assert cluster.limit_of(0).cpu_cores == 0.25
    assert cluster.limit_of(0).memory_bytes is not None

from msgspec.structs import replace
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from agent.config import DeliveryConfig, StorageConfig
from agent.delivery.sender import ReportSender
from agent.exposition import catalogue
from agent.exposition.metrics import PASS_DURATION, AgentMetrics
from agent.sampling.node_sample import ContainerSample, NodeSample
from agent.sampling.rates import ContainerRates, HostRates
from agent.sources.docker import ContainerInfo
from agent.sources.readings import DiskTotals, LinkTotals
from wire.messages import ContainerPower, Gap, NodePower, PowerSource, Pressure
from wire.resources import Quantities, Resource

Scrape = dict[str, dict[tuple[tuple[str, str], ...], float]]


def container(name: str) -> ContainerSample:
    """A container of which everything is known, each number another one."""
    return ContainerSample(
        rates=ContainerRates(
            id=f"id-of-{name}",
            runtime="docker",
            pod="1b4e28ba",
            cpu_seconds_total=101.0,
            used=Quantities(0.5, 102, 103.0, 104.0),
            limit=Quantities(1.5, 105),
            pressure=Pressure(0.25, 0.5, 0.75),
            cpu_user_seconds_total=106.0,
            cpu_system_seconds_total=107.0,
            cpu_throttled_seconds_total=108.0,
            cpu_weight=109.0,
            memory_usage_bytes=110,
            memory_anon_bytes=111,
            memory_file_bytes=112,
            oom_kills_total=113,
            disk_operations_per_second=114.0,
            disk_read_bytes_total=119,
            disk_written_bytes_total=120,
            network_receive_bytes_total=121,
            network_transmit_bytes_total=122,
            pids=115,
        ),
        info=ContainerInfo(name, "nginx", "shop/web", restarts=116),
        power=ContainerPower(117.0, PowerSource.PRIOR, 0.625, 118.0),
    )


def sample(*containers: ContainerSample) -> NodeSample:
    """The same of a node."""
    return NodeSample(
        monotonic_seconds=1.0,
        rates=HostRates(
            unix_seconds=1.0,
            interval_seconds=3.0,
            used=Quantities(1.0, 201, 202.0, 203.0),
            capacity=Quantities(4.0, 204, 205.0, 206.0),
            pressure=Pressure(0.125, 0.0, 1.0),
            learned_capacities=(Resource.DISK,),
            load_1m=207.0,
            frequency_hertz=208.0,
            iowait_ratio=0.0625,
            steal_ratio=0.03125,
            memory_cache_bytes=209,
            swap_used_bytes=210,
            disk_operations_per_second=211.0,
            disk_busy_ratio=0.875,
            oom_kills_total=212,
            disks={"sda": DiskTotals(217 + 218, written_bytes=218)},
            links={"eth0": LinkTotals(219 + 220, 220)},
            containers=tuple(each.rates for each in containers),
        ),
        power=NodePower(213.0, 214.0, 215.0, PowerSource.PRIOR, 0.375, 216.0),
        containers=containers,
        gaps=(Gap("RAPL", "this is a virtual machine"),),
    )


def scrape(sample: NodeSample | None, *alerts: Resource) -> Scrape:
    state = catalogue.AgentState(ReportSender(DeliveryConfig(), StorageConfig(directory="")))
    state.sample = sample
    state.alerts = frozenset(alerts)
    text = generate_latest(AgentMetrics(state).registry).decode()
    return {
        family.name: {
            tuple(sorted(rates.labels.items())): rates.value
            for rates in family.samples
            if not rates.name.endswith("_created")
        }
        for family in text_string_to_metric_families(text)
    }


def names(sample: NodeSample | None) -> set[str]:
    return {
        dict(labels)["name"]
        for series in scrape(sample).values()
        for labels in series
        if "name" in dict(labels)
    }


def without_labels(series: Scrape, prefix: str) -> dict[str, float]:
    return {
        name.removeprefix(prefix): value
        for name, values in series.items()
        if name.startswith(prefix) and not name.endswith("_pressure_ratio")
        for value in values.values()
    }


def test_every_container_is_there_and_one_that_is_gone_leaves_nothing() -> None:
    assert names(sample(container("web"), container("db"))) == {"web", "db"}
    assert names(sample(container("db"))) == {"db"}
    assert names(None) == set()


def test_each_container_metric_has_its_value() -> None:
    assert without_labels(scrape(sample(container("web"))), "wattpack_container_") == {
        "info": 1.0,
        "restarts": 116.0,
        "cpu_seconds": 101.0,
        "cpu_user_seconds": 106.0,
        "cpu_system_seconds": 107.0,
        "cpu_throttled_seconds": 108.0,
        "cpu_cores": 0.5,
        "cpu_limit_cores": 1.5,
        "cpu_weight": 109.0,
        "memory_usage_bytes": 110.0,
        "memory_working_set_bytes": 102.0,
        "memory_anon_bytes": 111.0,
        "memory_file_bytes": 112.0,
        "memory_limit_bytes": 105.0,
        "oom_kills": 113.0,
        "disk_bytes_per_second": 103.0,
        "disk_operations_per_second": 114.0,
        "disk_read_bytes": 119.0,
        "disk_written_bytes": 120.0,
        "network_bytes_per_second": 104.0,
        "network_receive_bytes": 121.0,
        "network_transmit_bytes": 122.0,
        "threads": 115.0,
        "power_watts": 117.0,
        "power_error_ratio": 0.625,
        "energy_joules": 118.0,
    }


def test_every_number_of_the_node_does_too() -> None:
    assert without_labels(scrape(sample()), "wattpack_node_") == {
        "power_watts": 213.0,
        "power_error_ratio": 0.375,
        "power_idle_watts": 214.0,
        "power_system_watts": 215.0,
        "energy_joules": 216.0,
        "cpu_cores": 1.0,
        "cpu_capacity_cores": 4.0,
        "cpu_iowait_ratio": 0.0625,
        "cpu_steal_ratio": 0.03125,
        "cpu_frequency_hertz": 208.0,
        "load_1m": 207.0,
        "memory_used_bytes": 201.0,
        "memory_capacity_bytes": 204.0,
        "memory_cache_bytes": 209.0,
        "swap_used_bytes": 210.0,
        "oom_kills": 212.0,
        "disk_bytes_per_second": 202.0,
        "disk_capacity_bytes_per_second": 205.0,
        "disk_operations_per_second": 211.0,
        "disk_busy_ratio": 0.875,
        "disk_read_bytes": 217.0,
        "disk_written_bytes": 218.0,
        "network_receive_bytes": 219.0,
        "network_transmit_bytes": 220.0,
        "network_bytes_per_second": 203.0,
        "network_capacity_bytes_per_second": 206.0,
    }


def test_labels_identify_each_series() -> None:
    series = scrape(sample(container("web")))
    (info,) = series["wattpack_container_info"]
    assert dict(info) == {
        "id": "id-of-web",
        "name": "web",
        "runtime": "docker",
        "image": "nginx",
        "service": "shop/web",
        "pod": "1b4e28ba",
    }
    assert list(series["wattpack_node_power_watts"]) == [(("source", "prior"), ("source_scope", "machine"))]
    assert list(series["wattpack_node_disk_capacity_bytes_per_second"]) == [(("source", "learned"),)]
    assert list(series["wattpack_node_network_capacity_bytes_per_second"]) == [(("source", "declared"),)]
    waited = {
        dict(labels)["resource"]: value
        for labels, value in series["wattpack_container_pressure_ratio"].items()
    }
    assert waited == {"cpu": 0.25, "memory": 0.5, "disk": 0.75}
    assert series["wattpack_agent_gap"] == {(("what", "RAPL"), ("why", "this is a virtual machine")): 1.0}


def test_alert_metric_is_1_while_the_alert_is_open() -> None:
    def alert_values(*alerts: Resource) -> dict[str, float]:
        series = scrape(None, *alerts)["wattpack_agent_alert"]
        return {dict(labels)["resource"]: value for labels, value in series.items()}

    assert alert_values() == {"cpu": 0.0, "memory": 0.0, "disk": 0.0, "network": 0.0}
    assert alert_values(Resource.CPU) == {"cpu": 1.0, "memory": 0.0, "disk": 0.0, "network": 0.0}


def test_unknown_value_has_no_series() -> None:
    unknown = ContainerSample(
        ContainerRates("id", "docker", 1.0, Quantities(), Quantities(), Pressure()), ContainerInfo("web")
    )
    bare = replace(
        sample(unknown), rates=HostRates(1.0, 3.0, Quantities(), Quantities(), Pressure()), power=None
    )
    series = scrape(bare)
    assert {name for name in series if name.startswith("wattpack_container_") and series[name]} == {
        "wattpack_container_info",
        "wattpack_container_cpu_seconds",
    }
    assert not {name for name in series if name.startswith("wattpack_node_") and series[name]}
    assert not series["wattpack_agent_clock_offset_seconds"]


def test_everything_exposed_is_in_the_catalogue() -> None:
    tables = [table for name, table in vars(catalogue).items() if name.endswith("_METRICS")]
    known = {spec.name.removesuffix("_total") for specs in tables for spec in specs}
    exposed = {name for name in scrape(sample(container("web"))) if not name.startswith("process_")}
    assert {name.removesuffix("_created") for name in exposed} == known | {PASS_DURATION[0]}


def test_a_container_costs_no_more_than_thirty_series() -> None:
    def count(sample: NodeSample) -> int:
        return sum(len(series) for series in scrape(sample).values())

    assert count(sample(container("web"), container("db"))) - count(sample(container("web"))) <= 30


def test_hostile_names_do_not_break_the_exposition() -> None:
    evil = 'a"} 1\nwattpack_evil 1\n\\'
    assert names(sample(container(evil))) == {evil}
    assert "wattpack_evil" not in scrape(sample(container(evil)))

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from agent import catalogue
from agent.config import Collector
from agent.deliver import Outbox
from agent.metrics import PASS_DURATION, AgentMetrics
from agent.state import AgentState
from tests.reports import container, report
from wire.messages import Report


def scrape(said: Report | None) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    state = AgentState(Outbox(Collector()))
    state.report = said
    text = generate_latest(AgentMetrics(state).registry).decode()
    return {
        family.name: {
            tuple(sorted(sample.labels.items())): sample.value
            for sample in family.samples
            if not sample.name.endswith("_created")
        }
        for family in text_string_to_metric_families(text)
    }


def names(said: Report | None) -> set[str]:
    return {
        dict(labels)["name"]
        for series in scrape(said).values()
        for labels in series
        if "name" in dict(labels)
    }


def test_every_container_is_there_and_one_that_is_gone_leaves_nothing() -> None:
    assert names(report(container("web"), container("db"))) == {"web", "db"}
    assert names(report(container("db"))) == {"db"}
    assert names(None) == set()


def test_values_stand_where_the_catalogue_says() -> None:
    series = scrape(report(container("web", cpu_cores=0.5, watts=2.0)))
    (labels,) = series["wattpack_container_cpu_cores"]
    assert dict(labels)["name"] == "web"
    assert series["wattpack_container_cpu_cores"][labels] == 0.5
    assert series["wattpack_container_cpu_seconds"] == {labels: 123.5}
    assert list(series["wattpack_container_power_watts"].values()) == [2.0]
    assert series["wattpack_node_power_watts"] == {(("source", "prior"),): 42.0}
    waited = {
        dict(key)["resource"]: value for key, value in series["wattpack_container_pressure_ratio"].items()
    }
    assert waited == {"cpu": 0.25, "memory": 0.0, "disk": 0.0}
    assert series["wattpack_agent_gap"] == {(("what", "RAPL"), ("why", "this is a virtual machine")): 1.0}


def test_what_is_not_known_has_no_series() -> None:
    series = scrape(report(container("web", cpu_cores=None)))
    assert not series["wattpack_container_cpu_cores"]
    assert not series["wattpack_container_network_bytes_per_second"]
    assert not series["wattpack_node_network_bytes_per_second"]


def test_everything_exposed_is_in_the_catalogue() -> None:
    known = {
        spec.name.removesuffix("_total")
        for specs in (
            catalogue.AGENT_METRICS,
            catalogue.NODE_METRICS,
            catalogue.NODE_PRESSURE_METRICS,
            catalogue.CONTAINER_METRICS,
            catalogue.CONTAINER_PRESSURE_METRICS,
            catalogue.GAP_METRICS,
        )
        for spec in specs
    } | {PASS_DURATION[0]}
    exposed = {name for name in scrape(report(container("web"))) if not name.startswith("process_")}
    assert {name.removesuffix("_created") for name in exposed} == known


def test_hostile_names_do_not_break_the_exposition() -> None:
    evil = 'a"} 1\nwattpack_evil 1\n\\'
    assert names(report(container(evil))) == {evil}
    assert "wattpack_evil" not in scrape(report(container(evil)))

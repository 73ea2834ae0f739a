"""Recipes, rules and dashboards, on a real Prometheus that scrapes a real agent and collector."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from tests.lab.engines.docker import Engine
from tests.lab.stores.prometheus import Prometheus, prometheus, promtool
from tests.lab.suite import suite
from tests.lab.waiting import eventually

pytestmark = pytest.mark.lab

ROOT = Path(__file__).parents[2]
RULES = ROOT / "monitoring/rules.yml"
RECORDS = re.findall(r"record: (\S+)", RULES.read_text())
RECIPES = re.findall(r"```promql\n(.*?)\n```", (ROOT / "docs/prometheus.md").read_text(), re.DOTALL)
QUERIES = [
    pytest.param(target["expr"], id=f"{path.stem}: {panel['title']} {target['refId']}")
    for path in sorted((ROOT / "monitoring/grafana").glob("*.json"))
    for panel in msgspec.json.decode(path.read_bytes())["panels"]
    for target in panel["targets"]
]
_VARIABLES = {
    "$__rate_interval": "30s",
    "$__range": "1m",
    "$instance": ".+",
    "$service": ".+",
    "$price": "0.30",
    "$co2": "400",
}
_BUSY = (
    "while :; do dd if=/dev/zero of=/file bs=64k count=16 conv=fsync 2>/dev/null; ping -c1 -w1 {} || :; done"
)


@pytest.fixture(scope="module")
def server(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    labels = {
        "com.docker.compose.project": "web",
        "com.docker.compose.service": "shop",
        "wattpack.slo": "silver",
    }
    names = [f"shop-{number}" for number in range(2)]
    for name in names:
        engine.run(name, "sh", "-c", _BUSY, cpus=0.2, memory="64m", labels=labels)
    every_window = ("reporting.window_seconds=4", "reporting.threshold_points=0")
    folder = tmp_path_factory.mktemp("suite")
    with suite(engine.socket, folder, period_seconds=1.0, settings=every_window) as running:
        jobs = {"wattpack-agent": running.agent_url, "wattpack-collector": running.collector_url}
        rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))
        scrape = {job: url.removeprefix("http://") for job, url in jobs.items()}
        with prometheus(scrape, rules=rules) as started:
            for job in jobs:
                started.wait_until_up(job)
            eventually(lambda: started.query("increase(wattpack_service_energy_joules_total[30s]) > 0"), 90)
            yield started
    engine.remove(*names)


def substituted(expr: str) -> str:
    for name, value in _VARIABLES.items():
        expr = expr.replace(name, value)
    return expr


@pytest.mark.parametrize("recipe", RECIPES)
def test_recipe_returns_data(recipe: str, server: Prometheus) -> None:
    assert eventually(lambda: server.query(recipe), 30)


@pytest.mark.parametrize("expr", QUERIES)
def test_query_of_a_panel_returns_data(expr: str, server: Prometheus) -> None:
    assert "$" not in substituted(expr)
    assert eventually(lambda: server.query(substituted(expr)), 30)


@pytest.mark.parametrize("record", RECORDS)
def test_recording_rule_returns_data(record: str, server: Prometheus) -> None:
    assert eventually(lambda: server.query(record), 30)


def test_healthy_cluster_has_no_alert(server: Prometheus) -> None:
    assert server.query('ALERTS{alertstate="firing", alertname!="WattpackBottleneck"}') == []


def test_rules_are_valid_and_fire_as_tested() -> None:
    promtool("check", "rules", str(RULES))
    promtool("test", "rules", str(RULES.with_name("rules_test.yml")))

import csv
import io
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.config import PowerConfig
from agent.sampling.power import PowerSample, PowerSampler
from collector.config import EnergyConfig, HistoryConfig
from collector.history.interface import Account
from collector.history.sqlite.history import History
from tests.agent.samples import Clock as AgentClock
from tests.agent.samples import cpu, node_sample
from tests.collector.builders import (
    CURVE,
    HEARTBEAT,
    START,
    Client,
    Clock,
    collecting,
    container,
    partial_report,
    report,
    settings,
    state,
)
from tests.lab.powercap import PowercapTree, constant, intel
from tests.powermodels.hosts import HASWELL, write_proc
from wire.messages import ContainerPower, ContainerState, PowerCurve, PowerSource, Report, encode
from wire.resources import Quantities

CORES, MEMORY_BYTES = 4.0, 8_000_000_000
QUARTER = Quantities(cpu_cores=1.0, memory_bytes=2_000_000_000, network_bytes_per_second=0.0)


def report_with_curve(
    node: str = "alpha", curve: PowerCurve | None = CURVE, *, sequence: int = 1, **changes: Any
) -> Report:
    """A heartbeat with a power curve, of a node that uses a quarter of its CPU and memory."""
    known = {"used": QUARTER, "capacity": Quantities(CORES, MEMORY_BYTES, None, 125_000_000.0)} | changes
    heartbeat = msgspec.structs.replace(HEARTBEAT, power_curve=curve)
    return partial_report(node, sequence=sequence, state=state(**known), heartbeat=heartbeat)


async def what_if(collector: Client, envelope: Quantities, node: str | None = None) -> tuple[int, Any]:
    return await collector.post(encode({"node": node, "envelope": envelope}), "/v1/what-if")


async def test_last_heartbeat_replaces_the_curve(collector: Client) -> None:
    lower = msgspec.structs.replace(CURVE, idle_watts=10.0)
    await collector.send(report_with_curve(sequence=1), report_with_curve("beta"))
    await collector.send(report_with_curve(curve=lower, sequence=3), report_with_curve(sequence=2))
    _, answer = await what_if(collector, QUARTER)
    watts = {each["node"]: each["before_watts"] for each in answer["estimates"]}
    assert watts["alpha"] == pytest.approx(watts["beta"] - 10.0)


async def test_what_if_uses_the_curve_of_the_node(collector: Client) -> None:
    await collector.send(report_with_curve())
    status, answer = await what_if(collector, Quantities(cpu_cores=2.0, memory_bytes=4_000_000_000), "alpha")
    assert status == 200
    # From 25 % of CPU and memory to 75 %: 15 to 35 W, and 2 to 6 W.
    assert answer == {
        "estimates": [
            {
                "node": "alpha",
                "before_watts": 37.0,
                "after_watts": 61.0,
                "added_watts": 24.0,
                "error_watts": pytest.approx(2.4),
                "exceeded": [],
                "not_counted": [],
                "source": "model",
                "scope": "machine",
                "source_scope": "machine",
            }
        ],
        "unknown": [],
        "load": {"cpu_cores": 2.0, "memory_bytes": 4_000_000_000},
        "factor": 1.0,
        "power_weight": 1.0,
    }


async def test_exceeded_resources_are_listed(collector: Client) -> None:
    await collector.send(report_with_curve())
    _, answer = await what_if(collector, Quantities(cpu_cores=3.5, memory_bytes=6_000_000_000))
    (only,) = answer["estimates"]
    # All of the memory is just enough.
    assert (only["exceeded"], only["after_watts"]) == (["cpu"], 68.0)


async def test_resources_of_unknown_capacity_are_listed(collector: Client) -> None:
    await collector.send(report_with_curve())
    _, answer = await what_if(
        collector, Quantities(disk_bytes_per_second=1e6, network_bytes_per_second=62_500_000.0)
    )
    (only,) = answer["estimates"]
    assert (only["not_counted"], only["exceeded"], only["added_watts"]) == (["disk"], [], 1.0)


async def test_what_if_on_all_nodes_is_sorted_by_added_watts(collector: Client) -> None:
    await collector.send(
        report_with_curve("idle", used=Quantities(0.0, 0)),
        report_with_curve("busy", used=Quantities(3.0, 0)),
        report_with_curve("large", capacity=Quantities(64.0, MEMORY_BYTES)),
        report_with_curve("mute", curve=None),
        report_with_curve("fresh", used=Quantities()),
        partial_report("no-state"),
    )
    _, answer = await what_if(collector, Quantities(cpu_cores=1.0))
    added = [(each["node"], each["added_watts"]) for each in answer["estimates"]]
    assert added == [("large", pytest.approx(60 / 64)), ("busy", 5.0), ("idle", 15.0)]
    reasons = {each["node"]: each["reason"] for each in answer["unknown"]}
    assert list(reasons) == ["fresh", "mute", "no-state"]
    assert "CPU" in reasons["fresh"]
    assert "no power curve" in reasons["mute"]


async def test_no_estimate_for_a_node_that_is_down(collector: Client) -> None:
    await collector.send(report_with_curve())
    collector.clock.now += 100
    _, answer = await what_if(collector, QUARTER)
    assert answer["estimates"] == []
    assert [(each["node"], "down" in each["reason"]) for each in answer["unknown"]] == [("alpha", True)]


async def test_what_if_on_unknown_node_is_an_error(collector: Client) -> None:
    status, refusal = await what_if(collector, QUARTER, "unknown")
    assert (status, refusal["field"]) == (404, "$.node")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"envelope": {"cpu_cores": -1}}', "$.envelope.cpu_cores"),
        (b'{"envelope": {"cpu_cores": "1"}}', "$.envelope.cpu_cores"),
        (b'{"envelope": {"memory_bytes": 0.5}}', "$.envelope.memory_bytes"),
        (b'{"envelope": {"watts": 1}}', "$.envelope"),
        (b'{"envelope": {}, "nodes": []}', "$"),
        (b'{"envelope": {}, "node": 7}', "$.node"),
        (b'{"node": "alpha"}', "$.envelope"),
        (b"[]", "$"),
        (b"{", "$"),
    ],
)
async def test_invalid_what_if_names_the_field(collector: Client, body: bytes, field: str) -> None:
    status, refusal = await collector.post(body, "/v1/what-if")
    assert (status, refusal["field"]) == (400, field)


async def test_what_if_accepts_json_without_parameters(collector: Client) -> None:
    body = encode({"envelope": QUARTER})
    status, refusal = await collector.post(body, "/v1/what-if", {"Content-Type": "text/plain"})
    assert (status, refusal["field"]) == (415, "Content-Type")
    status, refusal = await collector.post(body, "/v1/what-if?node=alpha")
    assert (status, refusal["field"]) == (400, "node")


async def test_curves_survive_a_restart(tmp_path: Path) -> None:
    config, clock = settings(tmp_path / "history.db"), Clock()
    async with collecting(config, clock) as collector:
        await collector.send(
            report_with_curve(), partial_report(sequence=2, at=START + 3, state=state(used=QUARTER))
        )
        before = await what_if(collector, QUARTER)
    async with collecting(config, clock) as collector:
        after = await what_if(collector, QUARTER)
    assert after == before
    assert before[1]["estimates"]


def sample_of(folder: Path, sys: Path, tree: PowercapTree | None = None) -> PowerSample:
    """The last of some samples of an agent on the same machine, with or without RAPL."""
    clock = AgentClock()
    sampler = PowerSampler(PowerConfig(), folder, sys)
    sampler.begin(clock.monotonic_seconds)
    samples = []
    for _ in range(20):
        clock.advance()
        if tree is not None:
            tree.advance(clock.monotonic_seconds)
        taken = node_sample(clock, {}, used=cpu(1.0, 4000))
        samples.append(sampler.measure(taken.rates, clock.monotonic_seconds))
    sampler.close()
    return samples[-1]


async def test_nodes_with_and_without_rapl_are_compared_and_added_in_one_scope(
    collector: Client, tmp_path: Path
) -> None:
    proc = write_proc(tmp_path / "proc", HASWELL, 4)
    without = sample_of(proc, tmp_path / "nothing")
    rapl_watts = 0.4 * without.node.watts
    tree = PowercapTree(tmp_path / "tree", intel(constant(rapl_watts)))
    metered = sample_of(proc, tree.sys, tree)
    assert (metered.node.source, without.node.source) == ("rapl", "prior")
    assert (metered.node.source_scope, without.node.source_scope) == ("cpu", "machine")
    for name, sample in (("metered", metered), ("without", without)):
        heartbeat = msgspec.structs.replace(HEARTBEAT, power_curve=sample.curve)
        known = state(
            power=sample.node, used=QUARTER, capacity=Quantities(CORES, MEMORY_BYTES, None, 125_000_000.0)
        )
        await collector.send(partial_report(name, state=known, heartbeat=heartbeat))
    added = Quantities(cpu_cores=1.0)
    _, answer = await what_if(collector, added)
    watts = {each["node"]: each for each in answer["estimates"]}
    assert {each["scope"] for each in answer["estimates"]} == {"machine"}
    assert watts["metered"]["before_watts"] == pytest.approx(watts["without"]["before_watts"], rel=0.4)
    assert watts["metered"]["before_watts"] > 1.5 * rapl_watts
    _, cluster = await collector.ask("/v1/cluster")
    assert cluster["power"]["watts"] == pytest.approx(metered.node.watts + without.node.watts, abs=0.1)
    assert cluster["power"]["watts"] > 1.4 * without.node.watts
    nodes = await collector.nodes()
    assert {each["name"]: each["power"]["source_scope"] for each in nodes} == {
        "metered": "cpu",
        "without": "machine",
    }
    _, energy = await collector.ask("/v1/energy")
    assert energy["scope"] == "machine"


async def test_power_of_a_part_of_a_machine_is_refused(collector: Client) -> None:
    body = encode((report_with_curve(),)).replace(b'"scope":"machine"', b'"scope":"cpu"')
    assert b'"scope":"cpu"' in body
    status, refusal = await collector.post(body, "/v1/reports")
    assert status == 400
    assert "scope" in refusal["detail"]


def drawing(name: str, cores: float, power_weight: float = 1.0) -> ContainerState:
    power = ContainerPower(2.0, PowerSource.RAPL, 0.2, 10.0, power_weight=power_weight)
    used = Quantities(cpu_cores=cores, memory_bytes=400_000_000)
    return container(name, power=power, used=used, service="shop")


async def test_what_if_takes_a_service_and_a_factor(collector: Client) -> None:
    busy = msgspec.structs.replace(report_with_curve("alpha"), containers=(drawing("web", 0.5, 2.0),))
    await collector.send(busy, report_with_curve("beta"))

    async def added(**question: Any) -> tuple[int, Any]:
        return await collector.post(encode(question), "/v1/what-if")

    status, twice = await added(service="shop", times=2)
    assert status == 200
    assert (twice["factor"], twice["power_weight"], twice["load"]["cpu_cores"]) == (1.0, 2.0, 0.5)
    watts = {each["node"]: each["added_watts"] for each in twice["estimates"]}
    # From 25 % of CPU to 37.5 %: 7.5 W on the curve, twice that for this service; 0.4 W of memory.
    assert watts == {"alpha": pytest.approx(15.4), "beta": pytest.approx(15.4)}
    _, half = await added(service="shop", share=0.5, node="beta")
    assert half["estimates"][0]["added_watts"] == pytest.approx(7.7)
    _, virtual = await added(service="shop", share=0.5, node="beta", virtualization_ratio=0.2)
    assert virtual["estimates"][0]["added_watts"] == pytest.approx(7.5 * 1.2 + 0.2)


async def test_what_if_with_less_of_a_service_saves_power_where_it_runs(collector: Client) -> None:
    busy = msgspec.structs.replace(report_with_curve("alpha"), containers=(drawing("web", 0.5),))
    await collector.send(busy, report_with_curve("beta"))
    _, answer = await collector.post(encode({"service": "shop", "times": 0}), "/v1/what-if")
    (only,) = answer["estimates"]
    assert (only["node"], only["added_watts"]) == ("alpha", pytest.approx(-7.9))
    # The power of this service was not measured: a third of its CPU watts is uncertain.
    assert only["error_watts"] == pytest.approx(((0.1 * 7.9) ** 2 + (7.5 / 3) ** 2) ** 0.5)
    assert [each["node"] for each in answer["unknown"]] == ["beta"]


@pytest.mark.parametrize(
    ("question", "status", "field"),
    [
        ({}, 400, "$.envelope"),
        ({"envelope": {}, "times": 2}, 400, "$.envelope"),
        ({"service": "shop"}, 400, "$.service"),
        ({"service": "shop", "times": 2, "share": 1}, 400, "$.service"),
        ({"service": "unknown", "times": 2}, 404, "$.service"),
    ],
)
async def test_what_if_rejects_questions_without_a_meaning(
    collector: Client, question: dict[str, Any], status: int, field: str
) -> None:
    answered, refusal = await collector.post(encode(question), "/v1/what-if")
    assert (answered, refusal["field"]) == (status, field)


async def test_the_power_of_the_cluster_over_time(collector: Client) -> None:
    for node in ("alpha", "beta"):
        await collector.send(report(node))
    status, answer = await collector.ask(f"/v1/cluster/history?end={START + 1}&step_seconds=30")
    assert status == 200
    (*_, last) = answer["points"]
    _, nodes = await collector.ask("/v1/nodes")
    assert last["nodes"] == 2
    assert last["watts"] == pytest.approx(sum(node["power"]["watts"] for node in nodes["nodes"]))
    assert last["watts"] == pytest.approx(
        last["idle_watts"] + last["system_watts"] + last["containers_watts"]
    )
    assert last["error_watts"] > 0


async def test_energy_has_its_price_and_emissions_and_can_be_had_as_csv() -> None:
    tariff = EnergyConfig(price_per_kwh=0.5, currency="EUR", co2_grams_per_kwh=400.0)
    config = msgspec.structs.replace(
        settings(), energy=tariff, history=HistoryConfig(path=":memory:", rollup_seconds=1.0)
    )
    query = f"by=container&start={START}&end={START + 600}"
    async with collecting(config) as collector:
        for number in range(3):
            drawn = ContainerPower(2.0, PowerSource.MODEL, 0.2, 3.6e4 * number)
            named = container('=cmd|"x"', power=drawn)
            await collector.send(report(sequence=number + 1, at=START + 300.0 * number, containers=(named,)))
        deadline = time.monotonic() + 20
        answer: Any = {"accounts": []}
        while not answer["accounts"] and time.monotonic() < deadline:
            _, answer = await collector.ask(f"/v1/energy?{query}")
        async with collector.http.get(f"{collector.url}/v1/energy?format=csv&{query}") as found:
            text = await found.text()
            assert found.content_type == "text/csv"
    rates = ("price_per_kwh", "currency", "co2_grams_per_kwh", "tariff_problem")
    assert [answer[each] for each in rates] == [0.5, "EUR", 400.0, None]
    (account,) = answer["accounts"]
    (line,) = csv.DictReader(io.StringIO(text))
    assert float(line["joules"]) == account["joules"] > 0
    kwh = account["joules"] / 3.6e6
    assert float(line["price"]) == pytest.approx(0.5 * kwh)
    assert float(line["co2_grams"]) == pytest.approx(400 * kwh)
    assert line["currency"] == "EUR"
    # A spreadsheet must not run the name of a container.
    assert line["name"] == '\'=cmd|"x"'


async def test_csv_adds_up_a_period_once_however_many_accounts_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    async with collecting(settings()) as collector:

        async def energy(_history: object, start: float, *_: object) -> list[Account]:
            asked.append(start)
            return [Account(key=f"container{number:05}", joules=1e6) for number in range(2500)]

        monkeypatch.setattr(History, "energy", energy)
        async with collector.http.get(f"{collector.url}/v1/energy?format=csv&by=container") as found:
            lines = (await found.text()).splitlines()
    assert (len(lines), len(asked)) == (2501, 1)


async def test_no_cell_of_the_csv_begins_like_a_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
    async with collecting(settings()) as collector:

        async def energy(*_: object) -> list[Account]:
            return [Account(key=f"{each}1+1", name=f"{each}2+2", joules=1.0) for each in starts]

        monkeypatch.setattr(History, "energy", energy)
        async with collector.http.get(f"{collector.url}/v1/energy?format=csv&by=container") as found:
            text = (await found.read()).decode()
    lines = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [(each["key"], each["name"]) for each in lines] == [
        (f"'{each}1+1", f"'{each}2+2") for each in starts
    ]

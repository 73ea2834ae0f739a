"""Whatever a node claims by labels, names and numbers: answers about honest nodes are the same without it."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.config import CollectorConfig
from tests.collector.builders import START, Client, Clock, collecting, container, report
from tests.collector.builders import settings as collector_settings
from tests.collector.report_strategies import patient
from wire.messages import ContainerPower, ContainerState, Event, EventKind, NodePower, PowerSource, Report
from wire.resources import Quantities

HONEST = ("alpha", "beta")
KEYS: tuple[str, ...] = ("wattpack.app", "wattpack.move", "wattpack.class", "wattpack.talks-to")
KEYS += (
    "wattpack.delay-max",
    "com.docker.compose.project",
    "com.docker.swarm.service.name",
    "io.kubernetes.pod.namespace",
    "tier",
)
odd_texts = st.text(max_size=30) | st.sampled_from(
    ["shop", "shop@alpha", "web@alpha", "\n", "\x1b[2J", "%s", "../x"]
)
labels = st.dictionaries(st.sampled_from(KEYS) | odd_texts, odd_texts, max_size=8)
numbers = st.sampled_from([0.0, 5e-324, 0.5, 1e9, 1e15])
watts = st.sampled_from([0.0, 1.0, 1e9])
joules = st.sampled_from([0.0, 10.0, 7e6, 1e18])


@st.composite
def claimed_containers(draw: st.DrawFn) -> ContainerState:
    name = draw(odd_texts.filter(bool))
    return container(
        name[:200],
        # Also the ids of containers of others.
        id=draw(st.sampled_from(["id-of-web-alpha", "id-of-web-beta"]) | odd_texts.filter(bool)),
        # Not a service of others: values of a service are means over its containers, on whatever node.
        service=draw(st.none() | odd_texts.map("of-mallory-{}".format)),
        labels=draw(labels),
        used=Quantities(draw(numbers), int(draw(numbers)), draw(numbers), draw(numbers)),
        power=ContainerPower(draw(watts), PowerSource.MODEL, 0.2, draw(joules)),
        started_at=draw(st.sampled_from([-1e11, 0.0, START, 1e11])),
    )


@st.composite
def claims(draw: st.DrawFn) -> list[Report]:
    """A few reports of one hostile node."""
    found = []
    for sequence in range(1, draw(st.integers(1, 3)) + 1):
        containers = {each.id: each for each in draw(st.lists(claimed_containers(), max_size=4))}
        claimed = report(
            "mallory",
            sequence=sequence,
            at=draw(st.sampled_from([0.0, START, START + 1e9])),
            containers=list(containers.values()),
            power=NodePower(draw(watts), 0.0, 0.0, PowerSource.RAPL, 0.03, draw(joules)),
        )
        events = draw(st.lists(st.sampled_from(["id-of-web-alpha", "x\n"]), max_size=2))
        died = tuple(Event(EventKind.DIED, START, container=each, joules_total=1e17) for each in events)
        found.append(msgspec.structs.replace(claimed, events=died))
    return found


def honest_reports(sequence: int) -> list[Report]:
    at = START + 300.0 * (sequence - 1)
    return [
        report(
            node,
            sequence=sequence,
            at=at,
            containers=[
                container(
                    f"web-{node}",
                    service="shop",
                    labels={"wattpack.app": "shop"},
                    power=ContainerPower(2.0, PowerSource.MODEL, 0.2, 600.0 * sequence),
                )
            ],
            power=NodePower(90.0, 40.0, 10.0, PowerSource.RAPL, 0.03, 27_000.0 * sequence),
        )
        for node in HONEST
    ]


async def answers(config: CollectorConfig, clock: Clock, claimed: list[Report]) -> dict[str, Any]:
    """What the collector says of honest nodes, after claims between their reports."""
    async with collecting(config, clock) as collector:
        await collector.send(*honest_reports(1))
        for each in claimed:
            # An invalid report is refused as a whole; it must not change anything either.
            await collector.post(msgspec.json.encode([each]))
        clock.now += 300
        await collector.send(*honest_reports(2))
        return await about_honest_nodes(collector)


async def about_honest_nodes(collector: Client) -> dict[str, Any]:
    nodes = await collector.nodes()
    containers = await collector.containers()
    alerts = await collector.alerts()
    _, application = await collector.ask("/v1/services/shop")
    return {
        "nodes": [each for each in nodes if each["name"] in HONEST],
        "containers": [each for each in containers if each["node"] in HONEST],
        "alerts": [each for each in alerts if each.get("node") in HONEST],
        "shop": application,
    }


@pytest.mark.slow
@settings(patient, max_examples=40)
@given(claims())
async def test_answers_about_honest_nodes_do_not_depend_on_the_claims_of_another(
    claimed: list[Report],
) -> None:
    without = await answers(collector_settings(), Clock(), [])
    assert len(without["containers"]) == len(HONEST)
    assert await answers(collector_settings(), Clock(), claimed) == without

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from collector.config import PlacementConfig
from collector.decide.answers import PlacementHint, PlanHint, RefusedFor, RefusedNode
from collector.decide.policies.actions import Move, PowerOff
from collector.main import running
from tests.collector.builders import START, Client, Clock, container, settings
from tests.collector.serve.api.test_hints import NEED, alarmed, sample
from wattpack.cli import main
from wattpack.commands.hint_container import format_hint, parse_size
from wattpack.commands.plan import format_plan
from wire.errors import UserError
from wire.resources import Quantities


@pytest.fixture
async def collector() -> AsyncIterator[Client]:
    clock = Clock()
    always_new = msgspec.structs.replace(settings(), placement=PlacementConfig(snapshot_seconds=0))
    async with running(always_new, clock=clock) as running_one, aiohttp.ClientSession() as http:
        yield Client(running_one.address.url, http, clock)


async def printed(client: Client, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    status = await asyncio.to_thread(main, [*arguments, "--collector", client.url])
    captured = capsys.readouterr()
    assert status == 0, captured.err
    return captured.out


async def complained(client: Client, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    status = await asyncio.to_thread(main, [*arguments, "--collector", client.url])
    assert status == 2
    return capsys.readouterr().err


async def test_hint_prints_nodes_with_reasons(collector: Client, capsys: pytest.CaptureFixture[str]) -> None:
    await collector.send(sample("calm", 1.0), sample("dark", 2.0, curve=False), sample("full", 7.9))
    asked = (
        "hint",
        "container",
        "new",
        "--cpu",
        "1",
        "--memory",
        "1GB",
        "--policy",
        "draps",
        "--reserve",
        "60",
    )
    lines = (await printed(collector, capsys, *asked)).splitlines()
    assert lines[0].startswith(
        "Policy draps. Assumed need: 1 core, 953.7 MiB of memory (a guess: the service is not measured yet"
    )
    calm = next(number for number, line in enumerate(lines) if line.startswith("calm"))
    assert "25%" in lines[calm]
    assert " W ±" in lines[calm]
    assert "available on average" in lines[calm + 1]
    dark = next(line for line in lines if line.startswith("dark"))
    assert dark.split()[-3:-1] == ["-", "100%"]
    assert "Rejected (not enough free CPU): 1 node: full" in lines
    assert lines[-1].startswith("Reserved calm until the container starts (id ")


async def test_hint_prints_the_limit_of_a_shrunk_request(
    collector: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    strict = container("strict", limit=Quantities(7.0, 1_000_000_000), labels={"wattpack.class": "1"})
    await collector.send(sample("full", 1.0, containers=(strict,)))
    asked = (
        "hint",
        "container",
        "--cpu",
        "2",
        "--memory",
        "1GiB",
        "--class",
        "4",
        "--policy",
        "energy4cloud",
    )
    lines = (await printed(collector, capsys, *asked)).splitlines()
    assert "    limited to 1 core, 512.0 MiB of memory there" in lines


async def test_unknown_service_goes_to_the_nursery_with_a_margin(
    collector: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    await collector.send(sample("a", 1.0), sample("b", 1.0), sample("c", 1.0))
    asked = ("hint", "container", "new", "--cpu", "4", "--memory", "1GB", "--policy", "genpack")
    lines = (await printed(collector, capsys, *asked)).splitlines()
    assert "    nursery node; a service without a profile goes to nursery nodes first" in lines
    # It may use more than it reserves: seven cores are free, and four of them are a guess.
    best = next(line for line in lines if line.startswith(("a", "b", "c")))
    assert best.split()[-2] in {"77%", "76%"}


async def test_hint_as_json(collector: Client, capsys: pytest.CaptureFixture[str]) -> None:
    await collector.send(sample("calm", 1.0), sample("busy", 4.0))
    shape: dict[str, Any] = {"reserve": NEED, "policy": "draps", "exclude": ["busy"]}
    _, expected = await collector.post(msgspec.json.encode(shape), "/v1/hints/placement")
    size = ("--cpu", "1", "--memory", "1000000000", "--exclude", "busy")
    answer = json.loads(
        await printed(collector, capsys, "hint", "container", *size, "--policy", "draps", "--json")
    )
    assert answer == expected


async def test_hint_without_a_fitting_node_prints_all_reasons(
    collector: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    await collector.send(sample("a"), sample("b"))
    out = await printed(collector, capsys, "hint", "container", "--cpu", "100", "--all-rejected")
    assert "The container fits on no node." in out
    assert ": 2 nodes: a, b" in out


async def test_plan_prints_actions_and_reasons(collector: Client, capsys: pytest.CaptureFixture[str]) -> None:
    hungry = container("hungry", used=Quantities(3.0, 1_000_000), started_at=START - 5000)
    await collector.send(alarmed("hot", (hungry,)), sample("cool", 1.0))
    out = await printed(collector, capsys, "plan", "--policy", "draps")
    assert out.startswith("Policy draps (the collector runs it on alerts): 1 action, from 100.0 W to ")
    assert "  1. move hungry from hot to cool" in out
    assert "hot is short of cpu" in out
    out = await printed(collector, capsys, "plan", "--policy", "draps", "--moves", "0")
    assert "Not done:\n  hot stays short of cpu: a plan has at most 0 moves" in out
    plan = json.loads(await printed(collector, capsys, "plan", "--policy", "draps", "--json"))
    assert plan["actions"][0]["target"] == "cool"


async def test_plan_shows_what_the_collector_does_for_open_alerts(
    collector: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    hungry = container("hungry", used=Quantities(3.0, 1_000_000), started_at=START - 5000)
    await collector.send(alarmed("hot", (hungry,)), sample("cool", 1.0))
    out = await printed(collector, capsys, "plan")
    assert out.startswith(
        "1 open bottleneck: cpu on hot. The plan against them:\n"
        "Policy draps (the collector runs it on alerts): 1 action, from 100.0 W to "
    )
    assert "\n\nPolicy least-watts (on request only; the collector itself runs draps on alerts): " in out
    plan = json.loads(await printed(collector, capsys, "plan", "--json"))
    assert (plan["policy"], plan["for_alerts"]["policy"]) == ("least-watts", "draps")
    assert plan["for_alerts"]["actions"][0]["target"] == "cool"


@pytest.mark.parametrize("policy", ["least-watts", "energy4cloud", "genpack"])
async def test_plan_and_status_of_one_node_agree_and_leave_it_on(
    collector: Client, capsys: pytest.CaptureFixture[str], policy: str
) -> None:
    await collector.send(sample("only", 0.0))
    out = await printed(collector, capsys, "plan", "--policy", policy)
    assert out.splitlines()[0] == (
        f"Policy {policy} (on request only; the collector itself runs draps on alerts): no actions,"
        " from 50.0 W to 50.0 W."
    )
    assert "only is the only node, so nothing can move." in out
    status = await printed(collector, capsys, "status")
    assert "power       50.0 W ±" in status
    assert "policies    draps on alerts, none on a timer; driver none: plans are recorded" in status


async def test_plan_leaves_the_node_of_the_collector_on_and_one_with_other_work(
    collector: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    own = f"{socket.gethostname()}.example.org"
    await collector.send(sample(own, 0.0), sample("database", 4.0), sample("idle", 0.0))
    out = await printed(collector, capsys, "plan")
    assert "  1. switch idle off (saves 50.0 W, costs " in out
    assert "1 action, from 150.0 W to 100.0 W, which saves 50.0 W." in out
    assert "only node" not in out


def test_what_an_emptied_node_saves_is_shown_once() -> None:
    def move(node: str) -> Move:
        return Move(task="t", name="web", node=node, target="b", gain_watts=6.0, cost_joules=9.0, reasons=())

    plan = PlanHint(
        policy="least-watts",
        at=START,
        timer_policy="",
        alert_policy="draps",
        actions=(move("a"), move("c"), PowerOff(node="a", gain_watts=50.0, cost_joules=900.0, reasons=())),
        reasons=(),
        left=(),
        watts_before=200.0,
        watts_after=151.0,
    )
    first, *lines = format_plan(plan)
    assert first.endswith("3 actions, from 200.0 W to 151.0 W, which saves 49.0 W.")
    assert lines == [
        "  1. move web from a to b (costs 9 J)",
        "  2. move web from c to b (saves 6.0 W, costs 9 J)",
        "  3. switch a off (saves 50.0 W, costs 900 J)",
    ]


async def test_plan_explains_why_a_node_stays_on(
    collector: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    await collector.send(sample("database", 4.0), sample("idle", 0.0))
    off = (await printed(collector, capsys, "plan", "--why", "idle")).splitlines()
    assert off[0].startswith("idle is emptied or switched off by policy least-watts (")
    assert off[1].startswith("  switch idle off (saves 50.0 W, costs ")
    stays = (await printed(collector, capsys, "plan", "--why", "database")).splitlines()
    assert stays[0].startswith("database is not emptied or switched off by policy least-watts (")
    assert stays[1] == "  order: others are emptied first"
    assert stays[3].startswith("  power: database uses 50.0% of its CPU outside containers")
    assert stays[4] == "       what would change it: the label wattpack.power=allowed on the node"
    found = json.loads(await printed(collector, capsys, "plan", "--why", "database", "--json"))
    assert [each["kind"] for each in found["obstacles"]] == ["order", "power"]


async def test_hint_does_not_say_that_a_container_fits_where_resources_do_not_suffice(
    collector: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    await collector.send(sample("busy", 7.9), sample("calm", 1.0))
    asked = ("hint", "container", "--cpu", "1", "--memory", "1GB", "--policy", "qos-driven")
    lines = (await printed(collector, capsys, *asked)).splitlines()
    assert "The container fits on 1 node." in lines[-2]
    assert lines[-1] == "1 ranked node will be short of a resource: see the reasons above."
    busy = next(number for number, line in enumerate(lines) if line.startswith("busy"))
    remarks = lines[busy + 1 : busy + 4]
    assert "    its resources will not suffice: the policy considers only reservations" in remarks


async def test_hint_has_one_cpu_share_per_node(collector: Client, capsys: pytest.CaptureFixture[str]) -> None:
    await collector.send(sample("calm", 1.0))
    lines = (
        await printed(collector, capsys, "hint", "container", "--cpu", "1", "--memory", "1GB")
    ).splitlines()
    calm = next(number for number, line in enumerate(lines) if line.startswith("calm"))
    assert "cpu" not in lines[calm + 1]
    assert "for variation: short at most 1.0% of the time" in lines[calm + 2]


async def test_invalid_hint_is_a_user_error(collector: Client, capsys: pytest.CaptureFixture[str]) -> None:
    assert "describe the container" in await complained(collector, capsys, "hint", "container")
    assert "there is no policy 'best'" in await complained(
        collector, capsys, "hint", "container", "a", "--policy", "best"
    )
    assert "is not a size" in await complained(collector, capsys, "hint", "container", "--memory", "much")
    assert "use KEY=VALUE" in await complained(collector, capsys, "plan", "--setting", "moves")
    refused = await complained(collector, capsys, "plan", "--policy", "draps", "--setting", "moves=x")
    assert "settings.moves must be a whole number" in refused


@pytest.mark.parametrize("text", ["-2", "nan", "inf", "two"])
def test_cores_are_a_number_of_0_or_more(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (
        ["hint", "container", "shop", "--cpu", text],
        ["hint", "what-if", "shop", "--times", text],
    ):
        with pytest.raises(SystemExit):
            main(command)
        assert f"{command[3]}: {text!r} is not a number of 0 or more" in capsys.readouterr().err


def test_unreachable_collector_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--collector", "http://127.0.0.1:1"]) == 2
    assert "http://127.0.0.1:1 does not answer" in capsys.readouterr().err
    assert main(["hint", "container", "a", "--collector", "here"]) == 2
    assert "use a URL" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "expected"),
    [("4GiB", 4 * 2**30), ("512M", 512e6), ("1.5kB", 1500), ("20MB/s", 20e6), ("7", 7), ("1 TiB", 2**40)],
)
def test_parse_size(text: str, expected: float) -> None:
    assert parse_size(text) == expected


@pytest.mark.parametrize("text", ["", "GiB", "-1", "4 gallons", "1e3"])
def test_invalid_size_is_a_user_error(text: str) -> None:
    with pytest.raises(UserError, match="is not a size"):
        parse_size(text)


async def test_a_rejection_with_details_of_a_node_is_printed(
    collector: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    await collector.send(sample("calm", 1.0))
    answer = await printed(collector, capsys, "hint", "container", "--cpu", "1", "--json")
    hint = msgspec.structs.replace(
        msgspec.json.decode(answer, type=PlacementHint),
        refused=(RefusedNode("far", "the round-trip time between far and calm is 100 ms"),),
        refused_for=(RefusedFor("the round-trip time exceeds the bound", 1),),
    )
    lines = list(format_hint(hint))
    assert "Rejected (the round-trip time exceeds the bound): 1 node" in lines
    assert "Rejected far: the round-trip time between far and calm is 100 ms" in lines


# --- Applications ---------------------------------------------------------------------------------

SHOP = Path(__file__).parent / "compose" / "shop.yaml"


async def test_an_application_is_placed_from_its_compose_file(
    collector: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    await collector.send(sample("calm", 1.0), sample("full", 7.9))
    asked = ("hint", "app", str(SHOP), "--policy", "net-aware")
    lines = (await printed(collector, capsys, *asked, "--reserve", "60")).splitlines()
    assert lines[0] == "Application shop, policy net-aware, bound 85 ms."
    assert [line.split() for line in lines[2:6]] == [
        ["SERVICE", "NODE", "CONTAINERS"],
        ["shop_web", "calm", "3"],
        ["shop_db", "calm", "1"],
        ["shop_cache", "calm", "2"],
    ]
    assert lines[7].startswith("F = 1.000: 6 of 6 containers on nodes without their image, 1 node in use")
    assert "Note: round-trip times are not measured: set mesh.enabled." in lines
    assert "Note: shop_logs is left out: it runs on every node, or is a job." in lines
    assert lines[-1] == "Reserved 6 places on calm until the containers start."
    answer = json.loads(await printed(collector, capsys, *asked, "--json", "--name", "till"))
    assert (answer["application"], answer["placed"], answer["reservations"]) == ("till", True, [])
    assert answer["services"].keys() == {"till_web", "till_db", "till_cache"}


async def test_an_excluded_node_gets_no_container_of_an_application(
    collector: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    await collector.send(sample("calm", 1.0), sample("idle", 0.1))
    asked = ("hint", "app", str(SHOP), "--policy", "net-aware", "--json")
    for excluded, used in (("calm", "idle"), ("idle", "calm")):
        answer = json.loads(await printed(collector, capsys, *asked, "--exclude", excluded))
        assert {node for nodes in answer["services"].values() for node in nodes} == {used}


async def test_an_application_that_does_not_fit_is_told_with_what_it_needs(
    collector: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    await collector.send(sample("full", 7.9))
    asked = ["hint", "app", str(SHOP), "--policy", "net-aware", "--collector", collector.url]
    assert await asyncio.to_thread(main, asked) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("Nothing is placed: nodes have room for 0 of 3 containers") for line in lines)
    assert any(line.startswith("Needed: ") for line in lines)


async def test_invalid_question_about_an_application_is_a_user_error(
    collector: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "cannot read gone.yaml" in await complained(collector, capsys, "hint", "app", "gone.yaml")
    hinted = await complained(collector, capsys, "hint", "container", str(SHOP))
    assert f"write 'wattpack hint app {SHOP}'" in hinted
    refused = await complained(collector, capsys, "hint", "app", str(SHOP), "--delay-max", "soon")
    assert "--delay-max: 'soon' is not a time: use a value such as 85ms or 0.085s" in refused


async def test_applications_are_listed(collector: Client, capsys: pytest.CaptureFixture[str]) -> None:
    assert (await printed(collector, capsys, "services", "apps")).startswith(
        "No applications. They come from Swarm stacks"
    )
    labels = {"wattpack.app": "shop", "wattpack.delay-max": "85ms"}
    await collector.send(sample("calm", 1.0, containers=(container(service="shop_web", labels=labels),)))
    lines = (await printed(collector, capsys, "services", "apps")).splitlines()
    assert lines[1].split() == ["shop", "1", "1", "1", "85", "ms", "-", "-", "-"]
    [shop] = json.loads(await printed(collector, capsys, "services", "apps", "--json"))
    assert (shop["name"], shop["nodes"]) == ("shop", {"calm": 1})

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.features.brownout.rule import (
    BUDGET,
    OptionalService,
    Shortages,
    StoppedService,
    choose_to_stop,
    reason_to_wait,
    required_calm_seconds,
    start_order,
)
from collector.features.brownout.settings import BrownoutConfig
from wire.resources import Quantities

_SETTINGS = BrownoutConfig()
_NODES = ("a", "b", "c")
_NOW = 10_000.0


def optional(name: str, *nodes: str, weight: float = 1.0) -> OptionalService:
    containers = tuple(f"{name}-{place}" for place in range(len(nodes)))
    return OptionalService(name=name, weight=weight, replicas=len(nodes), nodes=nodes, containers=containers)


def shortages(
    *places: str, acted: dict[str, float] | None = None, until: dict[str, float] | None = None
) -> Shortages:
    short = {place: f"{place or 'the cluster'} is short" for place in places}
    return Shortages(now=_NOW, short=short, acted_at=acted or {}, short_until=until or {}, began_at=0.0)


def stopped(**changes: object) -> StoppedService:
    facts = {"service": "x", "weight": 1.0, "replicas": 1, "since": 0.0, "why": "w", **changes}
    return StoppedService(**facts)  # type: ignore[arg-type]


_services = st.lists(
    st.builds(
        optional,
        st.text("xyz", min_size=1, max_size=3),
        st.sampled_from(_NODES),
        st.sampled_from(_NODES),
        weight=st.floats(0, 10),
    ),
    unique_by=lambda each: each.name,
)


@given(services=_services, places=st.sets(st.sampled_from((*_NODES, BUDGET))))
def test_the_lightest_service_on_a_short_node_stops(
    services: list[OptionalService], places: set[str]
) -> None:
    def is_concerned(service: OptionalService) -> bool:
        return BUDGET in places or any(node in places for node in service.nodes)

    choice = choose_to_stop(services, shortages(*places), _SETTINGS)
    concerned = [each for each in services if is_concerned(each)]
    assert (choice is None) == (not concerned)
    if choice is not None:
        assert choice[0].weight == min(each.weight for each in concerned)
        assert set(choice[1]) <= places


def test_a_service_that_mostly_runs_elsewhere_does_not_stop_for_one_node() -> None:
    assert choose_to_stop([optional("x", "a", "b", "c")], shortages("a"), _SETTINGS) is None
    assert choose_to_stop([optional("x", "a", "b")], shortages("a"), _SETTINGS) is not None


def test_the_next_service_stops_when_the_effect_of_the_last_stop_can_show() -> None:
    services = [optional("x", "a"), optional("y", "b", weight=2)]
    soon, later = _NOW - 1, _NOW - _SETTINGS.step_seconds
    assert choose_to_stop(services[:1], shortages("a", acted={"a": soon}), _SETTINGS) is None
    assert choose_to_stop(services[:1], shortages("a", acted={"a": later}), _SETTINGS) is not None
    chosen = choose_to_stop(services, shortages("a", "b", acted={"a": soon}), _SETTINGS)
    assert chosen is not None
    assert chosen[0].name == "y"
    assert choose_to_stop(services, shortages("a", BUDGET, acted={BUDGET: soon}), _SETTINGS) is None


def test_a_service_that_is_stopped_again_and_again_waits_longer() -> None:
    waits = [required_calm_seconds(stops, _SETTINGS) for stops in range(1, 20)]
    assert waits[:3] == [20.0, 40.0, 80.0]
    assert waits == sorted(waits)
    assert waits[-1] < 3600


@pytest.mark.parametrize(
    ("there", "free", "watts", "reason"),
    [
        (shortages("a"), 10.0, None, "a is short"),
        (shortages(BUDGET), 10.0, None, "the cluster is short"),
        (shortages("b"), 10.0, None, None),
        (shortages(until={"a": _NOW - 5}), 10.0, None, "no shortage for 5 of 20 s"),
        (shortages(acted={"a": _NOW - 5}), 10.0, None, "another service was just stopped or started there"),
        (shortages(until={"a": _NOW - 30}), 10.0, None, None),
        (shortages(), 0.5, None, "a has less cpu left than the service used"),
        (shortages(), 10.0, 5.0, "the power budget leaves 5.0 W; the service used 6.0 W"),
        (shortages(), 10.0, 7.0, None),
    ],
)
def test_when_a_stopped_service_starts_again(
    there: Shortages, free: float, watts: float | None, reason: str | None
) -> None:
    service = stopped(used={"a": Quantities(1.0, 1000), "gone": Quantities(1.0)}, watts=6.0)
    left = {"a": Quantities(free, 10**9)}
    assert reason_to_wait(service, there, _SETTINGS, free=left, free_watts=watts) == reason


def test_the_heaviest_service_starts_first() -> None:
    order = start_order(
        [stopped(service="light", weight=0.5), stopped(service="old"), stopped(service="new", since=5.0)]
    )
    assert [each.service for each in order] == ["new", "old", "light"]

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.decide import reservations as ledgers
from collector.decide.policies.interface import Request
from collector.decide.reservations import Reservations, fold_pending
from collector.snapshot.tables import Snapshot
from tests.collector.decide.policies.clusters import amount
from tests.collector.decide.policies.every import POLICIES
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble
from wire.errors import UserError

NEED = amount(1.0, 1.0)
WEB = Request(demand=NEED, reserve=NEED, known=True, service="web")
EMPTY = amount(0.0, 0.0)


def cluster(*tasks: tuple[str, str], at: float = 0.0) -> Snapshot:
    """Three nodes of eight cores, and tasks of the service `web` by id and node."""
    nodes = [NodeFacts(name=name, capacity=amount(8.0, 8.0), used=EMPTY) for name in "abc"]
    return assemble(nodes, [TaskFacts(id=name, node=node, service="web") for name, node in tasks], at=at)


def tasks_on(snapshot: Snapshot) -> dict[str, int]:
    return dict(zip(snapshot.nodes.names, snapshot.nodes.tasks.tolist(), strict=True))


@pytest.mark.parametrize(
    "policy", sorted(POLICIES.keys() & {"spread", "draps", "least-allocated", "target-load"})
)
def test_consecutive_requests_do_not_all_go_to_the_idle_node(policy: str) -> None:
    ledger, base, chosen = Reservations(), cluster(), Counter[str]()
    place, settings = POLICIES[policy].place, POLICIES[policy].settings()
    assert place is not None
    for now in range(9):
        seen = ledger.fold(base, now)
        best = place(seen, WEB, settings).best
        assert best is not None
        ledger.place(seen, WEB, base.nodes.names[best], now=now, seconds=60.0)
        chosen[base.nodes.names[best]] += 1
    if policy == "target-load":
        # It fills a node up to its target first, and then the next.
        assert max(chosen.values()) <= 4
    else:
        assert chosen == {"a": 3, "b": 3, "c": 3}


def test_a_placement_counts_until_its_container_is_reported() -> None:
    ledger, before = Reservations(), cluster(("old", "a"))
    ledger.place(ledger.fold(before, 0.0), WEB, "a", now=0.0, seconds=60.0)
    ledger.place(ledger.fold(before, 1.0), WEB, "a", now=1.0, seconds=60.0)
    assert tasks_on(ledger.fold(before, 2.0)) == {"a": 3, "b": 0, "c": 0}
    one_came = cluster(("new", "a"), ("old", "a"))
    assert tasks_on(ledger.fold(one_came, 3.0)) == {"a": 3, "b": 0, "c": 0}
    assert len(ledger.placements(3.0)) == 1
    again = cluster(("new", "a"), ("old", "a"))
    assert len(ledger.placements(4.0)) == 1, "one container ends one placement, however often it is seen"
    assert tasks_on(ledger.fold(again, 4.0)) == {"a": 3, "b": 0, "c": 0}
    both = cluster(("new", "a"), ("newer", "a"), ("old", "a"))
    assert tasks_on(ledger.fold(both, 5.0)) == {"a": 3, "b": 0, "c": 0}
    assert ledger.placements(5.0) == []


def test_containers_elsewhere_or_of_another_service_end_nothing() -> None:
    ledger, before = Reservations(), cluster()
    ledger.place(before, WEB, "a", now=0.0, seconds=60.0)
    ledger.place(before, Request(demand=NEED), "b", now=0.0, seconds=60.0)
    ledger.fold(cluster(("new", "b"), ("newer", "c")), 1.0)
    assert [each.sent.node for each in ledger.placements(1.0)] == ["a", "b"]


def test_a_placement_ends_with_its_time_or_when_it_is_released() -> None:
    ledger, base = Reservations(), cluster()
    first = ledger.place(base, WEB, "a", now=0.0, seconds=10.0)
    second = ledger.place(base, WEB, "b", now=0.0, seconds=20.0)
    assert ledger.release(second.id) is second
    assert ledger.release(second.id) is None
    assert tasks_on(ledger.fold(base, 9.0)) == {"a": 1, "b": 0, "c": 0}
    assert first.expires_at == 10.0
    assert tasks_on(ledger.fold(base, 10.0)) == {"a": 0, "b": 0, "c": 0}
    assert ledger.turn == 2


def test_of_placements_with_the_same_name_only_the_last_counts() -> None:
    ledger, base = Reservations(), cluster()
    for node in "abc":
        ledger.place(base, WEB, node, now=0.0, seconds=10.0, name="pod")
    assert tasks_on(ledger.fold(base, 1.0)) == {"a": 0, "b": 0, "c": 1}


def test_the_number_of_pending_placements_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledgers, "MAX_PLACEMENTS", 2)
    ledger, base = Reservations(), cluster()
    ledger.place(base, WEB, "a", now=0.0, seconds=10.0)
    ledger.place(base, WEB, "a", now=0.0, seconds=10.0)
    with pytest.raises(UserError, match="release some"):
        ledger.place(base, WEB, "a", now=0.0, seconds=10.0)


def test_a_service_does_not_return_to_a_node_that_it_just_left() -> None:
    ledger = Reservations()
    ledger.keep_from_returning("web", "a", until=100.0)
    ledger.keep_from_returning("web", "a", until=50.0)
    ledger.keep_from_returning("db", "b", until=100.0)
    assert ledger.left_by(["web"], 99.0) == {"a"}
    assert ledger.left_by(["web", "db"], 99.0) == {"a", "b"}
    assert ledger.left_by(["web"], 100.0) == frozenset()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("place"), st.sampled_from("abc")),
        st.tuples(st.just("look"), st.sampled_from("abc")),
        st.tuples(st.just("release"), st.sampled_from("abc")),
    ),
    max_size=20,
)


@given(STEPS)
def test_folding_placements_one_by_one_equals_folding_all_at_once(steps: list[tuple[str, str]]) -> None:
    ledger, base = Reservations(), cluster(("old", "a"))
    for step, node in steps:
        match step:
            case "place":
                ledger.place(base, WEB, node, now=0.0, seconds=10.0)
            case "look":
                ledger.fold(base, 0.0)
            case "release":
                for each in ledger.placements(0.0):
                    if each.sent.node == node:
                        ledger.release(each.id)
                        break
    expected = Counter(each.sent.node for each in ledger.placements(0.0)) + Counter("a")
    folded = ledger.fold(base, 0.0)
    assert Counter(tasks_on(folded)) == expected
    assert folded.instances(0).tolist() == [expected[name] for name in "abc"]
    assert folded.nodes.allocated[:, 0].tolist() == [expected[name] - (name == "a") for name in "abc"]


def test_place_that_is_kept_counts_until_it_is_given_up_or_expires() -> None:
    ledger, base = Reservations(), cluster()
    ledger.keep(base, WEB, "task-1", "b", now=0.0, seconds=60.0)
    assert (ledger.kept_on("task-1", 1.0), ledger.kept_on("task-2", 1.0)) == ("b", None)
    assert tasks_on(ledger.fold(base, 1.0)) == {"a": 0, "b": 1, "c": 0}
    ledger.give_up("task-1")
    assert ledger.kept_on("task-1", 1.0) is None
    assert tasks_on(ledger.fold(base, 1.0)) == {"a": 0, "b": 0, "c": 0}
    ledger.keep(base, WEB, "task-1", "b", now=1.0, seconds=60.0)
    assert ledger.kept_on("task-1", 61.0) is None


def test_a_fold_that_was_prepared_is_used_until_a_placement_changes() -> None:
    reservations, base = Reservations(), cluster()
    first = reservations.place(reservations.fold(base, 0.0), WEB, "a", now=0.0, seconds=60.0)
    pending, next_one = reservations.pending, cluster(at=1.0)
    prepared = fold_pending(next_one, pending)
    assert reservations.fold(next_one, 1.0) is prepared
    assert tasks_on(prepared) == {"a": 1, "b": 0, "c": 0}
    reservations.place(prepared, WEB, "b", now=1.0, seconds=60.0)
    assert reservations.pending is not pending
    assert tasks_on(reservations.fold(next_one, 1.0)) == {"a": 1, "b": 1, "c": 0}
    after = cluster(at=2.0)
    fold_pending(after, pending)
    reservations.release(first.id)
    assert tasks_on(reservations.fold(after, 2.0)) == {"a": 0, "b": 1, "c": 0}

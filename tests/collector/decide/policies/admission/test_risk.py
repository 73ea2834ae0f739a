import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.decide.policies.admission.risk import shortage_probability, was_short
from collector.decide.policies.interface import Request
from collector.decide.reservations import Reservations
from collector.snapshot.codec import pack, unpack
from collector.snapshot.tables import Snapshot
from tests.collector.decide.policies.clusters import amount
from tests.collector.decide.policies.least_watts.builders import make_node, make_task
from tests.collector.snapshot.builders import TaskFacts, assemble
from wire.resources import Quantities

_CORES = 10.0


def _generated(
    nodes: int = 40, tasks: int = 12, *, mean: float = 0.65, later: int = 400, seed: int = 1
) -> tuple[Snapshot, np.ndarray[tuple[int, int], np.dtype[np.float64]]]:
    """Nodes with containers whose use varies as an exponential law does, and the use of nodes afterwards."""
    rng, windows = np.random.default_rng(seed), 36
    means = rng.uniform(0.5, 1.5, size=(nodes, tasks)) * mean
    use = rng.gamma(4.0, 0.25, size=(nodes, tasks, windows + later)) * means[:, :, None]
    facts = [
        make_task(
            f"{node:02}-{task:02}",
            f"n{node:02}",
            float(use[node, task, :windows].mean()),
            deviation=float(use[node, task, :windows].std()),
            windows=use[node, task, :windows],
        )
        for node in range(nodes)
        for task in range(tasks)
    ]
    snapshot = assemble([make_node(f"n{node:02}", cores=_CORES) for node in range(nodes)], facts)
    return snapshot, use[:, :, windows:].sum(axis=1)


@pytest.mark.parametrize("mean", [0.6, 0.65, 0.7])
def test_the_probability_is_the_frequency_in_the_windows_that_follow(mean: float) -> None:
    snapshot, later = _generated(mean=mean)
    predicted = shortage_probability(snapshot).mean()
    realised = (later > 0.99 * _CORES).mean()
    assert 0.6 * realised < predicted < 1.7 * realised
    assert realised > 0.005


def test_each_node_has_its_own_probability() -> None:
    snapshot, later = _generated(later=2000)
    predicted, realised = shortage_probability(snapshot), (later > 0.99 * _CORES).mean(axis=1)
    riskier = np.argsort(predicted)
    assert realised[riskier[-10:]].mean() > 3 * realised[riskier[:10]].mean()


@settings(max_examples=40, deadline=None)
@given(one=st.floats(0, 40), two=st.floats(0, 40), is_given=st.sampled_from((0, 1)), seed=st.integers(0, 3))
def test_more_demand_never_lowers_the_probability(one: float, two: float, is_given: int, seed: int) -> None:
    snapshot, _ = _generated(nodes=6, tasks=6, mean=1.2, later=1, seed=seed)
    low, high = sorted((one, two))

    def asked(cores: float) -> Request:
        if not is_given:
            return Request(reserve=Quantities(cpu_cores=cores))
        need = Quantities(cpu_cores=cores)
        return Request(demand=need, mean=need, variance=(cores**2, 0.0, 0.0, 0.0))

    less, more = (shortage_probability(snapshot, asked(each)) for each in (low, high))
    assert np.all((less >= 0) & (more <= 1))
    assert np.all(more >= less - 1e-12)
    assert np.all(less >= shortage_probability(snapshot) - 1e-12)


def test_memory_counts_as_well() -> None:
    tasks = [make_task(f"t{each}", "a", 0.1, gibibytes=1.5) for each in range(8)]
    snapshot = assemble([make_node("a")], tasks)
    assert shortage_probability(snapshot)[0] < 0.01
    assert shortage_probability(snapshot, Request(reserve=amount(0.1, 6.0)))[0] == 1.0


def test_an_unknown_capacity_is_never_short() -> None:
    node = make_node("a")
    unknown = assemble(
        [type(node)(name="a", capacity=Quantities())], [TaskFacts(id="t", node="a", used=amount(9, 9))]
    )
    assert shortage_probability(unknown).tolist() == [0.0]


def test_a_window_is_short_from_nearly_all_of_the_capacity_on() -> None:
    history = [(0.995, 0.2, 0.0, 0.0), (0.5, 0.945, 0.0, 0.0), (0.9, 0.9, 0.0, 0.0)]
    unknown = (np.nan,) * 4
    nodes = [make_node("a", history=history, used=amount(1, 1)), make_node("b", history=[unknown] * 3)]
    snapshot = assemble(nodes, [make_task("t", "a", 1.0)])
    found = [was_short(snapshot, slot) for slot in (-3, -2, -1)]
    assert [known.tolist() for known, _ in found] == [[True, False]] * 3
    assert [short.tolist() for _, short in found] == [[True, False], [True, False], [False, False]]


def test_pending_placements_count_on_their_node_only() -> None:
    snapshot, _ = _generated(nodes=3, tasks=10, later=1)
    before, reservations = shortage_probability(snapshot), Reservations()
    need = Quantities(cpu_cores=1.5)
    request = Request(demand=need, mean=need, variance=(0.5, 0.0, 0.0, 0.0), known=True)
    reservations.place(snapshot, request, "n01", now=0.0, seconds=60.0)
    after = shortage_probability(reservations.fold(snapshot, 0.0))
    assert after[1] > before[1]
    assert after[[0, 2]].tolist() == before[[0, 2]].tolist()
    assert after[1] == pytest.approx(shortage_probability(snapshot, request)[1], rel=0.05)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 999))
def test_the_probability_after_many_placements_is_that_of_a_direct_computation(seed: int) -> None:
    snapshot, _ = _generated(nodes=5, tasks=6, mean=1.0, later=1, seed=seed)
    draw, reservations = np.random.default_rng(seed), Reservations()
    shortage_probability(snapshot)
    for _ in range(8):
        cores = float(draw.uniform(0.1, 3.0))
        need, is_known = Quantities(cpu_cores=cores, memory_bytes=2**28), bool(draw.random() < 0.5)
        variance = (cores**2 * is_known, 0.0, 0.0, 0.0)
        request = Request(demand=need, mean=need, reserve=need, variance=variance, known=is_known)
        seen = reservations.fold(snapshot, 0.0)
        # A snapshot from the journal shares nothing with the one that the placements were added to.
        direct = unpack(pack(seen))
        for each in (None, request):
            predicted = shortage_probability(seen, each)
            assert predicted == pytest.approx(shortage_probability(direct, each), abs=1e-9)
            assert predicted.tolist() == shortage_probability(seen, each).tolist()
        node = f"n{int(draw.integers(5)):02}"
        reservations.place(seen, request, node, now=0.0, seconds=60.0)

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.analysis.histograms import Keys, pack, sample_keys, sum_by_key
from collector.common.arrays import Floats
from collector.features.sizing.allocation import Demand, Tuning, allocate
from collector.features.sizing.daily import DAY_SECONDS, ServiceDays, UsageSum, sum_usage
from collector.features.sizing.recommendations import AverageNode, CurrentSize, recommend
from collector.features.sizing.sizes import (
    CPU,
    MEMORY,
    ResourceSizes,
    Sizer,
    SizeRules,
    estimate_peak_growth,
    size_services,
)
from collector.features.sizing.usage_table import UsageTable, UsageTimes
from tests.collector.report_strategies import patient

SAMPLES = 96
GIBIBYTE = float(1 << 30)


def usage_of(samples: Keys, sample_seconds: float) -> UsageSum:
    packed = pack(*sum_by_key(samples, np.ones(samples.size, dtype=np.int64)), 1)
    [total] = sum_usage(packed, [sample_seconds], DAY_SECONDS)
    return total


def day(cores: Floats, memory: Floats) -> UsageSum:
    keys = np.concatenate((sample_keys(cores, CPU), sample_keys(memory, MEMORY)))
    return usage_of(keys, DAY_SECONDS / cores.size)


def steady(cores: float, days: int, *, memory: float = GIBIBYTE, seed: int = 0) -> dict[int, UsageSum]:
    random = np.random.default_rng(seed)
    return {
        number: day(cores * random.uniform(0.8, 1.2, SAMPLES), memory * random.uniform(0.9, 1.1, SAMPLES))
        for number in range(days)
    }


def sized(
    services: dict[str, dict[int, UsageSum]], rules: SizeRules | None = None
) -> tuple[UsageTable, tuple[ResourceSizes, ResourceSizes]]:
    table = UsageTable.of(services)
    count = len(table.names)
    limits, killed = np.full((count, 2), np.nan), np.full(count, np.nan)
    return table, size_services(table, limits, killed, rules or SizeRules())


@pytest.mark.slow
def test_sizes_cover_the_percentile_and_cost_less_than_those_of_vpa() -> None:
    _, (cpu, memory) = sized({f"s{n}": steady(2.0**n, 6, seed=n + 4) for n in range(-4, 4)})
    for each in (cpu, memory):
        assert each.request.sum() <= 0.95 * each.vpa.sum() * (1 + 1e-9)
        assert (each.limit >= each.request).all()
        assert (each.limit >= each.peak).all()
        assert ((each.above >= 0) & (each.above <= 1)).all()
    assert (cpu.request >= 1.1 * cpu.used).all()
    assert (cpu.request <= 2 * cpu.peak).all()


def test_small_services_get_more_room_than_large_ones() -> None:
    services = {f"small{n}": steady(0.05, 4, seed=n) for n in range(10)}
    table, (cpu, _) = sized({**services, "large": steady(50.0, 4, seed=99)})
    room = cpu.request / cpu.used
    assert room[table.names.index("small3")] > 1.5 * room[table.names.index("large")]


def test_a_node_that_claims_absurd_use_does_not_widen_the_table_of_all() -> None:
    absurd = np.array([1e-34, 1e34])
    honest = {f"s{n}": steady(1.0, 1, seed=n) for n in range(3)}
    table = UsageTable.of({**honest, "liar": {0: day(absurd, absurd)}})
    for place, highest in ((CPU, 1e6), (MEMORY, 2.0**63)):
        usage = table.resource(place)
        assert usage.edges.size < 2000
        peaks = usage.peaks()[:, 0]
        assert peaks[table.names.index("liar")] == pytest.approx(highest, rel=0.03)
        alone = UsageTable.of(honest).resource(place).peaks()[:, 0]
        assert peaks[[table.names.index(name) for name in honest]] == pytest.approx(alone)


def test_equal_services_share_the_budget() -> None:
    flat = {number: day(np.full(SAMPLES, 2.0), np.full(SAMPLES, GIBIBYTE)) for number in range(3)}
    _, (cpu, _) = sized({"one": flat, "other": flat})
    assert cpu.request.sum() == pytest.approx(0.95 * cpu.vpa.sum(), rel=0.03)
    assert (cpu.above < 0.35).all()


def test_a_limit_that_was_never_reached_bounds_the_size() -> None:
    table = UsageTable.of({f"s{n}": steady(1.0, 4, seed=n) for n in range(4)})
    limits = np.full((4, 2), np.nan)
    limits[0, CPU] = 1.25
    none = np.full(4, np.nan)
    cpu, _ = size_services(table, limits, none, SizeRules(reserve_ratio=3.0))
    assert cpu.request[0] == 1.25
    assert (cpu.request[1:] > 1.5).all()


def test_an_out_of_memory_kill_raises_memory_above_what_the_container_had() -> None:
    table = UsageTable.of({f"s{n}": steady(1.0, 4, seed=n) for n in range(3)})
    limits, killed = np.full((3, 2), np.nan), np.array([2 * GIBIBYTE, np.nan, np.nan])
    limits[:, MEMORY] = 2 * GIBIBYTE
    _, memory = size_services(table, limits, killed, SizeRules())
    assert memory.request[0] == memory.limit[0] == pytest.approx(2.4 * GIBIBYTE)
    assert (memory.request[1:] < 2 * GIBIBYTE).all()


def test_with_little_history_memory_covers_its_peak() -> None:
    spike = np.full(SAMPLES, GIBIBYTE)
    spike[10] = 4 * GIBIBYTE
    quiet = {"quiet": steady(1.0, 1)}
    _, (_, memory) = sized({"spiky": {0: day(np.ones(SAMPLES), spike)}, **quiet})
    assert memory.request[1] >= 4 * GIBIBYTE


def test_a_resource_that_was_not_measured_has_no_size() -> None:
    cpu_only = usage_of(sample_keys(np.ones(SAMPLES), CPU), 900.0)
    found, _ = recommend(
        {"web": ServiceDays(days={0: cpu_only})},
        {"web": CurrentSize(2, (4.0, np.nan))},
        AverageNode(capacity=16.0, idle_watts=80.0),
        SizeRules(),
    )
    web = found["web"]
    assert web.memory is None
    assert web.cpu is not None
    assert web.confidence == pytest.approx(0.5)
    change = 2 * (web.cpu.request - 4.0)
    assert web.cpu.change == pytest.approx(change)
    assert web.watts_change == pytest.approx(change / 16 * 80)


def test_no_services_have_no_sizes() -> None:
    found, _ = recommend({}, {}, AverageNode(), SizeRules())
    assert not found


def learn_tuning(table: UsageTable) -> Tuning:
    limits = np.full(len(table.names), np.nan)
    return Sizer(table.resource(CPU), CPU, limits, table.observed_days, SizeRules()).learn_tuning()


@pytest.mark.slow
def test_tuning_follows_the_days_that_are_left_out() -> None:
    """Each day is another level: only the last days predict the next one."""
    services = {}
    for number in range(30):
        random = np.random.default_rng(number)
        level = np.cumprod(random.choice([0.4, 2.5], 9))
        services[f"s{number:02}"] = {
            at: day(each * random.uniform(0.9, 1.1, SAMPLES), np.full(SAMPLES, GIBIBYTE))
            for at, each in enumerate(level)
        }
    table = UsageTable.of(services)
    tuning = learn_tuning(table)
    assert tuning.half_life_days < np.inf
    assert estimate_peak_growth(table.resource(CPU), 0.0) > 2


def test_few_days_leave_the_default_tuning() -> None:
    table = UsageTable.of({"web": steady(1.0, 3)})
    assert learn_tuning(table) == Tuning()


@patient
@given(st.integers(1, 12), st.integers(0, 10_000), st.floats(0.5, 5), st.sampled_from([0.05, 0.1, 0.3]))
def test_allocations_keep_their_bounds_and_grow_with_the_budget(
    services: int, seed: int, factor: float, spread: float
) -> None:
    random = np.random.default_rng(seed)
    edges = np.concatenate(([0.0], 0.01 * 1.1 ** np.arange(80)))
    seconds = random.random((services, edges.size)) * (random.random((services, edges.size)) < 0.2)
    seconds[:, 60:] = 0.0
    seconds[:, 1] += 1.0
    times = UsageTimes(edges, seconds)
    least = times.percentile(0.9)
    most = np.where(random.random(services) < 0.5, edges[times.highest()] * 1.5, np.inf)
    demand = Demand(times, least, most)
    budget = float(np.minimum(edges[least], most).sum()) * (1 + factor)
    sizes, above = allocate(demand, spread, budget)
    more_sizes, more_above = allocate(demand, spread, 2 * budget)
    assert (sizes >= np.minimum(edges[least], most)).all()
    assert (sizes <= most).all()
    assert sizes.sum() <= budget * (1 + 1e-9)
    assert (more_sizes >= sizes).all()
    assert (more_above <= above + 1e-12).all()

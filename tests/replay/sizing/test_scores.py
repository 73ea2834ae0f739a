import numpy as np
import pytest

from collector.features.sizing.sizes import SizeRules
from replay.setup.workload import Recorded, Reserved, Workload, always_running
from replay.sizing.halves import split, vpa_requests
from replay.sizing.page import frontier_text, page
from replay.sizing.scores import GIVEN, OURS, VPA, compare_methods, learn_sizes, score_halves
from wire.errors import UserError

STEPS = 4 * 288
GIBIBYTE = float(1 << 30)


def workload(seed: int = 0, machines: int = 12) -> Workload:
    random = np.random.default_rng(seed)
    size = 2.0 ** random.uniform(-4, 2, machines)[:, None]
    wave = 1 + 0.4 * np.sin(np.arange(STEPS) * 2 * np.pi / 288)
    cores = size * wave * random.uniform(0.7, 1.3, (machines, STEPS))
    memory = size * GIBIBYTE * random.uniform(0.9, 1.1, (machines, STEPS))
    requested = np.full((machines, 4), np.nan)
    requested[:, 0], requested[:, 1] = 8.0, 16 * GIBIBYTE
    values = np.stack([cores, memory], axis=2).astype(np.float32)
    names = [f"vm-{number:02}" for number in range(machines)]
    return always_running(names, requested, Recorded.of_all(300.0, values))


def test_all_methods_are_scored_on_the_same_days() -> None:
    report = score_halves(split(workload(), 14), SizeRules())
    assert list(report.methods) == [OURS, VPA, GIVEN]
    assert (report.services, report.learned_days, report.scored_days) == (12, 2.0, 2.0)
    ours, vpa, given = (report.methods[name] for name in (OURS, VPA, GIVEN))
    for resource in ("cpu", "memory"):
        assert ours.slack_ratio[resource] < vpa.slack_ratio[resource] < given.slack_ratio[resource]
        assert given.above_ratio[resource] == 0
        assert given.request_ratio[resource] == 1
        assert ours.request_ratio[resource] < vpa.request_ratio[resource] < 1
    assert {point.method for point in report.frontier["cpu"]} == {OURS, VPA, "percentile"}
    assert "memory" in "\n".join(frontier_text(report))
    assert page(report, "a trace").count("<svg") == 2


def test_slack_and_above_are_what_they_say() -> None:
    values = np.full((1, 4, 1), 1.0, dtype=np.float32)
    values[0, 3, 0] = 3.0
    requested = np.array([[2.0, np.nan, np.nan, np.nan]])
    halves = split(always_running(["vm"], requested, Recorded.of_all(300.0, values)), 14)
    given = compare_methods(halves, SizeRules())[GIVEN]
    # The second half uses 1 and 3 cores: one is unused of four in use, and half of the time is above.
    assert given.slack_ratio == {"cpu": pytest.approx(1 / 4)}
    assert given.above_ratio == {"cpu": pytest.approx(1 / 2)}


def test_a_trace_of_one_sample_cannot_be_scored() -> None:
    values, requested = np.full((1, 1, 1), 1.0, dtype=np.float32), np.full((1, 4), np.nan)
    with pytest.raises(UserError, match="runs in the second half: give a longer one"):
        split(always_running(["vm"], requested, Recorded.of_all(300.0, values)), 14)


def test_the_second_half_changes_no_request() -> None:
    one, other = workload(seed=1), workload(seed=1)
    assert isinstance(other.use, Recorded)
    other.use.values.reshape(12, STEPS, 2)[:, STEPS // 2 :] *= 7
    first, second = split(one, 14), split(other, 14)
    for found, again in zip(learn_sizes(first, SizeRules()), learn_sizes(second, SizeRules()), strict=True):
        np.testing.assert_array_equal(found.request, again.request)
    np.testing.assert_array_equal(vpa_requests(first), vpa_requests(second))


def test_days_that_a_collector_has_forgotten_do_not_count() -> None:
    assert split(workload(), 1).table.days == 1
    assert split(workload(), 14).table.days == 2


def test_a_subset_is_as_if_there_were_no_others() -> None:
    whole = workload()
    assert isinstance(whole.use, Recorded)
    rows = np.array([1, 4, 7])
    values = whole.use.values.reshape(12, STEPS, 2)[rows]
    names = [whole.ids[row] for row in rows]
    alone = split(always_running(names, whole.requested[rows], Recorded.of_all(300.0, values)), 14)
    part = split(whole, 14).only(rows)
    assert compare_methods(part, SizeRules()) == compare_methods(alone, SizeRules())


def test_a_trace_without_usage_is_refused() -> None:
    whole = workload()
    with pytest.raises(UserError, match="no usage"):
        split(
            Workload(
                **{
                    **{name: getattr(whole, name) for name in whole.__dataclass_fields__},
                    "use": Reserved(whole.requested),
                }
            ),
            14,
        )

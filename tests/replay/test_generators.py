"""Generated workloads have the published numbers, and are the same for the same seed."""

from typing import Any

import numpy as np
import pytest

from collector.common.arrays import Floats
from collector.snapshot.tables import TaskKind
from replay.setup.workload import Workload
from replay.sources import GENERATORS, generate
from wire.errors import UserError

SMALL: dict[str, dict[str, Any]] = {
    "borg": {"hours": 0.5},
    "cloud-hour": {},
    "deployments": {
        "classes": [
            {"name": "one", "availability": 1.0, "deployments": 1},
            {"name": "two", "availability": 0.9, "deployments": 2},
        ],
        "cpu_cores": 1,
        "memory_mb": 64,
    },
    "elastic": {"seconds": 3600},
    "fleet": {"containers": 50, "days": 1},
    "images": {},
    "listed": {"kinds": {"x": {"cpu_cores": 1, "memory_mb": 64}}, "order": ["x", "x"]},
}


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_same_seed_makes_the_same_workload(name: str) -> None:
    one, other = (generate(name, SMALL[name], 7) for _ in "ab")
    rows = np.arange(one.size)
    assert one.ids == other.ids
    assert one.arrival_seconds.tolist() == other.arrival_seconds.tolist()
    used = [each.use.at(100.0, rows, np.zeros(rows.size)).tolist() for each in (one, other)]
    assert used[0] == used[1]


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_unknown_setting_is_an_error(name: str) -> None:
    with pytest.raises(UserError, match="speed"):
        generate(name, SMALL[name] | {"speed": 1}, 0)


def most_at_once(workload: Workload, amounts: Floats) -> float:
    times = np.concatenate([workload.arrival_seconds, workload.arrival_seconds + workload.lifetime_seconds])
    changes = np.concatenate([amounts, -amounts])[np.argsort(times, kind="stable")]
    return float(np.cumsum(changes).max())


def test_borg_has_the_rate_the_peak_and_the_lengths_of_genpacks_sample() -> None:
    workload = generate("borg", {}, 1)
    assert workload.size == pytest.approx(49_202, rel=0.01)
    assert most_at_once(workload, np.ones(workload.size)) == pytest.approx(102, rel=0.15)
    assert most_at_once(workload, workload.requested[:, 0]) == pytest.approx(42, rel=0.2)
    assert most_at_once(workload, workload.requested[:, 1] / 2**30) == pytest.approx(40, rel=0.2)
    assert np.percentile(workload.lifetime_seconds, 5) == pytest.approx(39, abs=2)
    assert workload.lifetime_seconds.max() <= 3000


def test_cloud_hour_has_the_limits_and_classes_of_the_thesis() -> None:
    workload = generate("cloud-hour", {}, 1)
    shares = workload.requested[:, 0] * 1024
    jobs = workload.kind == TaskKind.JOB
    assert 1678 * 0.8 < workload.size < 2223 * 1.2
    assert shares[jobs].min() >= 204
    assert shares.max() <= 1024
    assert workload.lifetime_seconds.min() >= 30
    assert workload.lifetime_seconds.max() <= 1800
    found = np.bincount(workload.task_class, minlength=5)[1:] / workload.size
    assert found == pytest.approx([0.10, 0.30, 0.45, 0.15], abs=0.05)


def test_cloud_hour_pauses_at_the_limit_of_requests() -> None:
    workload = generate("cloud-hour", {"stop_seconds": 0}, 1)
    gaps = np.diff(workload.arrival_seconds)
    first = int(np.argmax(gaps > 1))
    memory_mb = workload.requested[: first + 1, 1].sum() / 2**20
    assert memory_mb >= 92_160 or workload.requested[: first + 1, 0].sum() * 1024 >= 61_440
    assert gaps[first] - 0.5 == pytest.approx(workload.lifetime_seconds[: first + 1].mean())


def test_images_come_one_by_one_ten_of_each() -> None:
    workload = generate("images", {"containers": 140}, 3)
    assert sorted(np.unique(workload.services, return_counts=True)[1].tolist()) == [10] * 14
    assert np.diff(workload.arrival_seconds).tolist() == [5.0] * 139
    assert np.isnan(workload.requested).all()


def test_listed_order_contains_only_known_kinds() -> None:
    with pytest.raises(UserError, match="unknown kinds: y"):
        generate("listed", SMALL["listed"] | {"order": ["y"]}, 0)


def test_late_pods_of_deployments_come_last() -> None:
    workloads = {
        late: generate("deployments", SMALL["deployments"] | {"late": late}, 0) for late in ((), (1, 1), (2,))
    }
    orders = {late: [each.partition("-")[2] for each in found.ids] for late, found in workloads.items()}
    assert orders[()] == ["one-01", "one-01", "two-02", "two-02", "two-03", "two-03"]
    assert orders[1, 1] == ["one-01", "one-01", "two-02", "two-03", "two-02", "two-03"]
    assert orders[2,] == ["one-01", "one-01", "two-02", "two-02", "two-03", "two-03"]


def test_deployments_have_the_promise_of_their_class() -> None:
    workload = generate("deployments", SMALL["deployments"] | {"mode": "concurrent"}, 0)
    assert workload.promised is not None
    assert workload.promised.promise.tolist() == [0, 0, 1, 1, 1, 1]
    assert workload.promised.mode == "concurrent"
    assert workload.promised.by_service


def test_instances_of_an_elastic_service_share_its_load_and_the_newest_ends_first() -> None:
    settings = {"low_cores": 1, "high_cores": 4, "noise_ratio": 0, "wave_seconds": 7200, "target_ratio": 0.5}
    workload = generate("elastic", {**settings, "seconds": 14_400, "most": 6}, 0)
    begin, end = workload.arrival_seconds, workload.arrival_seconds + workload.lifetime_seconds
    for seconds, load in ((0, 1.0), (3600, 4.0), (7200, 1.0), (9000, 2.5)):
        rows = np.flatnonzero((begin <= seconds) & (seconds < end))
        used = workload.use.at(seconds, rows, begin[rows])[:, 0]
        assert used.sum() == pytest.approx(load, rel=1e-6)
        assert len(set(used.tolist())) == 1
    running = [int(((begin <= seconds) & (seconds < end)).sum()) for seconds in range(0, 14_400, 60)]
    assert max(running) == 6
    assert min(running) == 2
    # Whatever ends began after all that runs on.
    for row in np.flatnonzero(np.isfinite(end)):
        stays = (begin <= end[row]) & (end > end[row]) & (begin < end[row])
        assert (begin[stays] <= begin[row]).all()

import numpy as np
import pytest

from collector.features.promises.ledger.promises import Promise
from replay.simulation.queue.contention import by_level, level_of

GOLD = Promise(name="gold", availability=1.0, importance=1)
BRONZE = Promise(name="bronze", availability=0.5, importance=2)
PROMISES = (BRONZE, GOLD)


@pytest.mark.parametrize(
    ("gold", "bronze", "level"),
    [(1.0, 1.0, "none"), (1.0, 0.7, "low"), (1.0, 0.4, "medium"), (0.9, 0.4, "high"), (0.9, 1.0, "high")],
)
def test_the_level_is_the_worst_that_priorities_do(gold: float, bronze: float, level: str) -> None:
    interval = {"gold": np.array([1.0, gold]), "bronze": np.array([bronze, 1.0])}
    assert level_of(interval, PROMISES) == level


def test_each_level_has_the_means_of_its_intervals() -> None:
    intervals = [
        {"gold": np.array([1.0]), "bronze": np.array([0.2, 1.0])},
        {"gold": np.array([1.0]), "bronze": np.array([0.6, 0.6])},
        {"gold": np.array([]), "bronze": np.array([1.0])},
    ]
    found = by_level(["medium", "medium", "none"], intervals, PROMISES)
    assert found["medium"]["bronze"].intervals == 2
    assert found["medium"]["bronze"].min_availability == pytest.approx(0.4)
    assert found["medium"]["bronze"].met_ratio == pytest.approx(0.75)
    assert found["medium"]["bronze"].gini == pytest.approx((0.8 / 2.4) / 2)
    assert set(found["none"]) == {"bronze"}

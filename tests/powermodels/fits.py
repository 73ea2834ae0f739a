"""Small machines with known power, for tests of models, fits and evaluation."""

from collections.abc import Mapping
from datetime import UTC, datetime
from math import sqrt
from random import Random

from hypothesis import strategies as st

from powermodels.common.interface import Load
from powermodels.models.fitted import Origin, Range, Training
from powermodels.models.regression import CurveModel
from powermodels.models.samples import Sample
from wire.resources import Quantities

MADE = datetime(2025, 11, 16, 12, tzinfo=UTC)

ratios = st.floats(0, 1)
loads = st.builds(
    Load, ratios, st.none() | ratios, st.none() | ratios, st.none() | ratios, st.none() | ratios
)
watts = st.floats(0, 5000)


def origin(low_watts: float = 0.0, high_watts: float = 1000.0, cap_watts: float | None = None) -> Origin:
    return Origin(
        features=("cpu", "cpu_sqrt", "disk_sqrt", "network_sqrt"),
        scaling=Quantities(cpu_cores=8),
        training=Training(samples=100, watts=Range(low_watts, high_watts), features={}, cap_watts=cap_watts),
        error_ratio=0.05,
        made=MADE,
        host="0123456789abcdef",
    )


def curve(
    idle_watts: float = 100.0,
    coefficients_watts: Mapping[str, float] | None = None,
    training: Origin | None = None,
) -> CurveModel:
    return CurveModel(
        origin=training or origin(),
        idle_watts=idle_watts,
        coefficients_watts=dict(
            {"cpu": 60.0, "cpu_sqrt": 80.0} if coefficients_watts is None else coefficients_watts
        ),
    )


def true_watts(load: Load) -> float:
    """A machine with 100 W at idle and 260 W at full use."""
    return (
        100
        + 60 * load.cpu_ratio
        + 80 * sqrt(load.cpu_ratio)
        + 8 * sqrt(load.disk_ratio or 0.0)
        + 12 * sqrt(load.network_ratio or 0.0)
    )


def random_load(random: Random) -> Load:
    return Load(random.random() ** 2, random.random(), random.random() ** 4, random.random() ** 4)


def metered(
    count: int = 200, group: str = "", *, seed: int = 1, noise_ratio: float = 0.0, begin_seconds: float = 0.0
) -> list[Sample]:
    """Samples of the true machine, every 5 s."""
    random = Random(seed)  # noqa: S311 - not for secrets
    samples = []
    for index in range(count):
        load = random_load(random)
        reading_watts = true_watts(load) * (1 + noise_ratio * random.uniform(-1, 1))
        samples.append(Sample(begin_seconds + 5 * index, reading_watts, load, group))
    return samples

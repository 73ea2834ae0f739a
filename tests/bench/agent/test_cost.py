import argparse
import io
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.agent import cost
from bench.agent.monitors import SAMPLING_SECONDS
from bench.common.measurement import histogram_quantile
from bench.common.progress import Progress
from tests.lab.parts import require
from wire.errors import UserError

BOUNDS = (0.01, 0.02, 0.04, 0.08)


def at_or_below(values: list[float]) -> dict[float, float]:
    return {bound: float(sum(value <= bound for value in values)) for bound in (*BOUNDS, math.inf)}


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    cost.add_arguments(parser)
    return parser.parse_args(arguments)


def test_a_quantile_lies_on_a_line_within_its_bucket() -> None:
    counts = at_or_below([0.005] * 50 + [0.03] * 50)
    assert histogram_quantile(counts, 0.5) == pytest.approx(0.01)
    assert histogram_quantile(counts, 0.75) == pytest.approx(0.03)
    assert histogram_quantile(counts, 1.0) == pytest.approx(0.04)


def test_a_quantile_beyond_the_last_bound_is_infinite() -> None:
    assert histogram_quantile(at_or_below([0.005, 0.5]), 0.99) == math.inf


def test_without_observations_there_is_no_quantile() -> None:
    assert histogram_quantile(at_or_below([]), 0.99) is None
    assert histogram_quantile({}, 0.99) is None


@given(
    values=st.lists(st.floats(0.0001, 0.08), min_size=1, max_size=50),
    ratio=st.floats(0.01, 1.0),
)
def test_a_quantile_is_in_the_bucket_of_the_true_one(values: list[float], ratio: float) -> None:
    counts = at_or_below(values)
    found = histogram_quantile(counts, ratio)
    true = sorted(values)[max(0, math.ceil(ratio * len(values)) - 1)]
    upper = min(bound for bound in BOUNDS if true <= bound)
    lower = max((bound for bound in BOUNDS if bound < upper), default=0.0)
    assert found is not None
    assert lower <= found <= upper or found == pytest.approx(upper)


def test_each_peer_is_needed_only_for_its_own_comparison() -> None:
    needs = {need.name: need.comparison for need in cost.needs(options())}
    assert needs == {"docker": None, "glances": "glances", "netdata": "netdata"}
    assert [need.name for need in cost.needs(options("--peers="))] == ["docker"]
    with pytest.raises(UserError, match="there is no 'cadvisor': choose from glances, netdata"):
        cost.needs(options("--peers=cadvisor"))


@pytest.mark.lab
def test_it_measures_a_real_agent_on_real_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    require("docker")
    monkeypatch.setattr(cost, "SETTLE_SECONDS", SAMPLING_SECONDS)
    output = io.StringIO()
    result = cost.run(
        options("--containers=3", "--seconds=9", "--busy-seconds=6", "--growth=", "--peers="),
        Progress(output),
    )
    figures = {figure.name: figure for figure in result.figures}
    # The cost depends on the load of the machine; that it was measured does not.
    for name in ("agent_cpu", "agent_rss", "agent_pss", "agent_pass_p50", "agent_pass_p99"):
        value = figures[name].value
        assert value is not None
        assert value > 0
    assert figures["busy_missed_samples"].value is not None
    assert figures["agent_containers_seen"].ok
    assert figures["agent_reports_delivered"].ok
    assert figures["agent_cpu"].at_most == 1.5
    assert figures["agent_rss"].at_most == 60
    assert figures["agent_engine_cpu_added"].at_most == 0.3
    assert "starting containers: 0 of 3" in output.getvalue()

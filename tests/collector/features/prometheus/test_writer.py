import math
from collections.abc import Iterable

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.features.prometheus.reader import STORE_GAP, parse_nodes, parse_states, parse_usage
from collector.features.prometheus.schema import COUNTED_UNTIL, INFO, SAMPLED_AT, SAMPLED_METRICS
from collector.features.prometheus.writer import (
    MAX_SAMPLES,
    REPEAT_SECONDS,
    SampleWriter,
    expand_samples,
)
from collector.history.promql import Instant, Range
from tests.collector.builders import HEARTBEAT, START, container, partial_report, report, state
from tests.collector.features.prometheus.decoding import Written, decode
from wire.messages import Alert, ContainerUsage, PowerSource, Report
from wire.resources import Quantities, Resource
from wire.sketch import Sketch, merged

counts = st.integers(0, 40)
sketches = st.builds(Sketch, st.dictionaries(st.integers(1, 1500), st.integers(1, 40), max_size=8), counts)


def counted(sketch: Sketch) -> Sketch | None:
    """The sketch of a resource; None without a sample."""
    return sketch if sketch.count else None


def written(scribe: SampleWriter, *reports: Report) -> list[Written]:
    return [each for one in reports for each in decode(scribe.write(one, one.at))]


def store_of(series: Iterable[Written]) -> list[Instant]:
    """What a store answers of all series now: the last value of each that has not ended."""
    last = {each.labels: each.samples[-1] for each in series}
    return [
        Instant(dict(labels), (at / 1000, repr(value)))
        for labels, (at, value) in last.items()
        if not math.isnan(value)
    ]


def names(series: Iterable[Written], container_id: str) -> set[str]:
    return {each.name for each in series if ("id", container_id) in each.labels}


def test_a_written_node_is_read_back() -> None:
    web = container("web", restarts=2, oom_kills_total=1, cpu_throttled_seconds_total=3.5)
    node = state(
        learned_capacities=(Resource.DISK,),
        capacity=Quantities(4.0, 8_000_000_000, 5e8, 125e6),
        load_1m=1.5,
        swap_used_bytes=77,
    )
    spoken = partial_report(state=node, containers=(web,), heartbeat=HEARTBEAT)
    store = store_of(written(SampleWriter(), spoken))
    assert parse_nodes(store, "instance")["alpha"].sampled_at == START
    read = parse_states(store, "instance")["alpha"]
    assert read.state == msgspec.structs.replace(node, gaps=(*node.gaps, STORE_GAP))
    # When it was started, and its labels, are no numbers.
    assert read.containers == (msgspec.structs.replace(web, started_at=None, labels={}),)
    assert read.heartbeat is not None
    assert read.heartbeat.agent_version == HEARTBEAT.agent_version
    assert read.alerts == ()


def test_a_container_that_is_gone_ends_in_the_store() -> None:
    scribe = SampleWriter()
    before = written(scribe, report(containers=[container("web"), container("job")]))
    after = written(scribe, partial_report(sequence=2, at=START + 3, gone=("id-of-job",)))
    assert {each.name for each in after if ("id", "id-of-job") in each.labels} == names(before, "id-of-job")
    read = parse_states(store_of([*before, *after]), "instance")["alpha"]
    assert [each.name for each in read.containers] == ["web"]


def test_one_that_a_heartbeat_does_not_name_any_more_ends_too() -> None:
    scribe = SampleWriter()
    series = written(
        scribe, report(containers=[container("web"), container("job")]), report(sequence=2, at=START + 300)
    )
    assert parse_states(store_of(series), "instance")["alpha"].containers == ()


def test_a_limit_that_is_lifted_and_a_meter_that_takes_over_end_their_series() -> None:
    scribe = SampleWriter()
    limited, free = container("web"), container("web", limit=Quantities())
    power = state().power
    assert power is not None
    modelled = state(power=msgspec.structs.replace(power, source=PowerSource.MODEL))
    series = written(
        scribe,
        report(containers=[limited]),
        partial_report(sequence=2, at=START + 30, containers=(free,), state=modelled),
    )
    read = parse_states(store_of(series), "instance")["alpha"]
    assert read.containers[0].limit == Quantities()
    assert read.state is not None
    assert read.state.power is not None
    assert read.state.power.source == "model"
    assert sum(each.metric["__name__"] == "wattpack_node_power_watts" for each in store_of(series)) == 1


def test_all_that_holds_is_repeated_now_and_then() -> None:
    scribe = SampleWriter()
    whole = {each.labels for each in written(scribe, report(containers=[container("web")]))}
    soon = written(scribe, partial_report(sequence=2, at=START + 30))
    assert [each.name for each in soon] == [SAMPLED_AT]
    later = written(scribe, partial_report(sequence=3, at=START + REPEAT_SECONDS))
    assert whole == {each.labels for each in later}
    assert [each.samples for each in later if each.name == COUNTED_UNTIL] == [(((START + 60) * 1000, START),)]


def test_the_state_of_before_a_restart_is_written_again_after_it() -> None:
    scribe = SampleWriter()
    scribe.merge(report(containers=[container("web")]), START)
    assert INFO in names(written(scribe, partial_report(sequence=2, at=START + 100)), "id-of-web")
    scribe.expire(START + 101)
    assert not names(written(scribe, partial_report(sequence=3, at=START + 200)), "id-of-web")


def test_a_report_that_comes_twice_gives_the_same_samples() -> None:
    usage = (ContainerUsage("id-of-web", cpu=Sketch({3: 2}, 1)),)
    spoken = partial_report(
        state=state(),
        containers=(container("web"),),
        heartbeat=msgspec.structs.replace(HEARTBEAT, usage=usage),
    )
    scribe = SampleWriter()
    assert scribe.write(spoken, START) == scribe.write(spoken, START + 5)


def test_alerts_are_written_while_they_are_open() -> None:
    scribe = SampleWriter()
    alert = Alert(Resource.CPU, START, "too busy")
    series = written(scribe, report(), partial_report(sequence=2, at=START + 3, alerts=(alert,)))
    [read] = parse_states(store_of(series), "instance")["alpha"].alerts
    assert read.resource is Resource.CPU
    lost = written(scribe, report(sequence=9, at=START + 300))
    assert not parse_states(store_of([*series, *lost]), "instance")["alpha"].alerts
    over = msgspec.structs.replace(alert, closed_at=START + 9)
    series += written(scribe, partial_report(sequence=3, at=START + 9, alerts=(over,)))
    assert not parse_states(store_of(series), "instance")["alpha"].alerts


@pytest.mark.parametrize("at", [START + 3600, START - 49 * 3600, 0.0, 1e300])
def test_a_time_that_cannot_be_is_replaced_by_that_of_receipt(at: float) -> None:
    assert all(
        sample[0] == START * 1000
        for each in decode(SampleWriter().write(partial_report(at=at), START))
        for sample in each.samples
    )


@given(sketches, sketches)
def test_histograms_come_back_from_the_store_as_they_were(cpu: Sketch, disk: Sketch) -> None:
    heartbeat = msgspec.structs.replace(HEARTBEAT, usage=(ContainerUsage("id-of-web", cpu=cpu, disk=disk),))
    series = written(SampleWriter(), partial_report(containers=(container("web"),), heartbeat=heartbeat))
    ranges = [
        Range(dict(each.labels), [(at / 1000, repr(value)) for at, value in each.samples])
        for each in series
        if each.name in SAMPLED_METRICS.values()
    ]
    spans = {"alpha": (START - 3600, START)}
    read = parse_usage(ranges, "instance", spans)
    expected = ContainerUsage("id-of-web", cpu=counted(cpu), disk=counted(disk))
    used = {node: each.usage for node, each in read.items()}
    assert used == ({"alpha": (expected,)} if cpu.count or disk.count else {})


def test_samples_stand_as_far_apart_as_they_were_taken() -> None:
    sketch = Sketch({10: 2}, zeros=1)
    heartbeat = msgspec.structs.replace(HEARTBEAT, usage=(ContainerUsage("id-of-web", cpu=sketch),))
    series = written(SampleWriter(), partial_report(containers=(container("web"),), heartbeat=heartbeat))
    [sampled] = [each for each in series if each.name == SAMPLED_METRICS[Resource.CPU]]
    assert [at for at, _ in sampled.samples] == [round((START + after) * 1000) for after in (-6, -3, 0)]
    assert ("name", "web") in sampled.labels


@given(st.lists(sketches, min_size=1, max_size=40), st.sampled_from([0.5, 0.9, 0.99]))
def test_too_many_samples_are_thinned_evenly(many: list[Sketch], q: float) -> None:
    sketch = merged([Sketch({index: 100 * count for index, count in each.bins.items()}) for each in many])
    values = expand_samples(sketch)
    assert len(values) == min(sketch.count, MAX_SAMPLES)
    if len(values) == MAX_SAMPLES:
        low, high = sketch.quantile(q - 0.001), sketch.quantile(q + 0.001)
        assert low is not None
        assert high is not None
        thinned = np.quantile(values, q, method="inverted_cdf")
        assert low * 0.999 <= thinned <= high * 1.001


def test_an_absurd_count_is_capped() -> None:
    assert expand_samples(Sketch({0: 2**63 - 1, 1: 2**63 - 1}, 2**63 - 1)).size == MAX_SAMPLES
    assert expand_samples(Sketch()).size == 0

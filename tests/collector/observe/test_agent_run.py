from hypothesis import given
from hypothesis import strategies as st

from collector.observe.agent_run import AgentRun
from tests.collector.builders import HEARTBEAT, START, container, partial_report, report, state
from tests.collector.report_strategies import Run, patient, runs
from wire.messages import ContainerState, Report


def picture(*reports: Report) -> AgentRun:
    whole = AgentRun("first", START)
    for each in reports:
        whole.merge(each, START)
    return whole


def running(whole: AgentRun) -> dict[str, ContainerState]:
    return {name: each.value for name, each in whole.containers.items()}


@patient
@given(runs(), st.data())
def test_any_order_and_repetition_of_reports_gives_the_same_state(run: Run, data: st.DataObject) -> None:
    again = data.draw(st.lists(st.sampled_from(run.reports)))
    shuffled = data.draw(st.permutations(run.reports + again))
    assert picture(*shuffled) == picture(*run.reports)


@patient
@given(runs(), st.data())
def test_the_merged_state_is_that_of_the_last_report(run: Run, data: st.DataObject) -> None:
    whole = picture(*data.draw(st.permutations(run.reports)))
    assert running(whole) == run.containers
    assert whole.state is not None
    assert whole.state.value == run.state
    assert whole.is_complete


@patient
@given(runs(), st.data())
def test_whatever_was_lost_before_a_heartbeat_is_healed_by_it(run: Run, data: st.DataObject) -> None:
    earlier = data.draw(st.lists(st.sampled_from(run.reports[: run.last_heartbeat] or run.reports)))
    since = run.reports[run.last_heartbeat :]
    assert picture(*data.draw(st.permutations(earlier + since))) == picture(*since)


@patient
@given(runs(), st.data())
def test_a_run_with_a_lost_report_is_incomplete_until_the_next_heartbeat(
    run: Run, data: st.DataObject
) -> None:
    since = range(run.last_heartbeat + 1, len(run.reports) - 1)
    lost = data.draw(st.sets(st.sampled_from(since))) if since else set()
    left = [each for number, each in enumerate(run.reports) if number not in lost]
    whole = picture(*data.draw(st.permutations(left)))
    assert whole.is_complete == (not lost)
    newest = run.reports[-1]
    mend = report(sequence=newest.sequence + 1, at=newest.at, containers=run.containers.values())
    whole.merge(mend, START)
    assert whole.is_complete
    assert running(whole) == run.containers


def test_a_container_that_is_not_in_a_heartbeat_is_not_there() -> None:
    whole = picture(
        report(sequence=1, containers=[container("stays"), container("stops")]),
        partial_report(sequence=2, containers=(container("comes"),)),
        report(sequence=3, containers=[container("stays")]),
    )
    assert list(whole.containers) == ["id-of-stays"]


def test_a_late_report_does_not_bring_back_a_container_that_is_gone() -> None:
    whole = picture(
        report(sequence=1),
        partial_report(sequence=3, gone=("id-of-web",)),
        partial_report(sequence=2, containers=(container("web"),)),
    )
    assert list(whole.containers) == []
    whole.merge(partial_report(sequence=4, containers=(container("web"),)), START)
    assert list(whole.containers) == ["id-of-web"]


def test_a_container_both_gone_and_running_in_a_report_was_restarted() -> None:
    whole = picture(
        report(sequence=1, containers=[container(restarts=0)]),
        partial_report(sequence=2, gone=("id-of-web",), containers=(container(restarts=1),)),
    )
    assert [each.restarts for each in running(whole).values()] == [1]


def test_each_part_has_the_time_of_the_report_that_carried_it() -> None:
    whole = picture(
        report(sequence=1, at=START, containers=[container("still"), container("busy")]),
        partial_report(sequence=2, at=START + 45, containers=(container("busy"),)),
        partial_report(sequence=3, at=START + 60, state=state()),
        partial_report(sequence=4, at=START + 90),
    )
    assert {name: each.at - START for name, each in whole.containers.items()} == {
        "id-of-still": 0.0,
        "id-of-busy": 45.0,
    }
    assert whole.state is not None
    assert (whole.state.at, whole.newest.at) == (START + 60, START + 90)


def test_before_its_first_heartbeat_a_run_is_not_complete() -> None:
    whole = picture(partial_report(sequence=2, containers=(container(),)))
    assert list(whole.containers) == ["id-of-web"]
    assert not whole.is_complete
    whole.merge(partial_report(sequence=1, heartbeat=HEARTBEAT), START)
    assert whole.is_complete


def test_a_report_ahead_of_its_time_is_noticed_once() -> None:
    whole = AgentRun("first", START)
    ahead = [whole.merge(partial_report(sequence=number), START).is_ahead for number in (7, 8, 11, 9, 10, 12)]
    assert ahead == [False, False, True, False, False, False]

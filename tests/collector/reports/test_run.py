from hypothesis import given
from hypothesis import strategies as st

from collector.reports.run import AgentRun
from tests.collector.builders import HEARTBEAT, START, container, report, said, state
from tests.collector.speaking import Run, patient, runs
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
def test_any_order_and_repetition_gives_the_same_picture(run: Run, data: st.DataObject) -> None:
    again = data.draw(st.lists(st.sampled_from(run.reports)))
    shuffled = data.draw(st.permutations(run.reports + again))
    assert picture(*shuffled) == picture(*run.reports)


@patient
@given(runs(), st.data())
def test_the_picture_is_the_world_as_it_was_at_the_last_word(run: Run, data: st.DataObject) -> None:
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
def test_a_loss_is_known_until_the_next_heartbeat(run: Run, data: st.DataObject) -> None:
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
        said(sequence=2, containers=(container("comes"),)),
        report(sequence=3, containers=[container("stays")]),
    )
    assert list(whole.containers) == ["id-of-stays"]


def test_a_late_word_does_not_bring_back_a_container_that_is_gone() -> None:
    whole = picture(
        report(sequence=1),
        said(sequence=3, gone=("id-of-web",)),
        said(sequence=2, containers=(container("web"),)),
    )
    assert list(whole.containers) == []
    whole.merge(said(sequence=4, containers=(container("web"),)), START)
    assert list(whole.containers) == ["id-of-web"]


def test_one_that_is_gone_and_there_in_the_same_report_was_started_anew() -> None:
    whole = picture(
        report(sequence=1, containers=[container(restarts=0)]),
        said(sequence=2, gone=("id-of-web",), containers=(container(restarts=1),)),
    )
    assert [each.restarts for each in running(whole).values()] == [1]


def test_each_part_is_as_new_as_the_report_that_last_told_of_it() -> None:
    whole = picture(
        report(sequence=1, at=START, containers=[container("still"), container("busy")]),
        said(sequence=2, at=START + 45, containers=(container("busy"),)),
        said(sequence=3, at=START + 60, state=state()),
        said(sequence=4, at=START + 90),
    )
    assert {name: each.at - START for name, each in whole.containers.items()} == {
        "id-of-still": 0.0,
        "id-of-busy": 45.0,
    }
    assert whole.state is not None
    assert (whole.state.at, whole.newest.at) == (START + 60, START + 90)


def test_before_its_first_heartbeat_a_run_is_not_complete() -> None:
    whole = picture(said(sequence=2, containers=(container(),)))
    assert list(whole.containers) == ["id-of-web"]
    assert not whole.is_complete
    whole.merge(said(sequence=1, heartbeat=HEARTBEAT), START)
    assert whole.is_complete


def test_a_report_ahead_of_its_time_is_noticed_once() -> None:
    whole = AgentRun("first", START)
    ahead = [whole.merge(said(sequence=number), START).is_ahead for number in (7, 8, 11, 9, 10, 12)]
    assert ahead == [False, False, True, False, False, False]

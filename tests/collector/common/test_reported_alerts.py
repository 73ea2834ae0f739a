from hypothesis import given
from hypothesis import strategies as st

from collector.common.reported_alerts import KEPT, NodeAlerts, ReportedAlert
from tests.collector.builders import START
from tests.collector.report_strategies import Run, patient, runs
from wire.messages import Alert, Report
from wire.resources import Resource


def book(*reports: Report) -> NodeAlerts:
    alerts = NodeAlerts()
    for report in reports:
        for alert in report.alerts:
            alerts.add(ReportedAlert(report.node, report.boot, report.sequence, alert))
    return alerts


def word(
    sequence: int, opened_at: float, closed_at: float | None = None, boot: str = "first"
) -> ReportedAlert:
    return ReportedAlert("alpha", boot, sequence, Alert(Resource.CPU, opened_at, "busy", closed_at=closed_at))


def open_ones(alerts: NodeAlerts, boot: str = "first") -> list[float]:
    return [stored.alert.opened_at for stored, is_open in alerts.listed(boot) if is_open]


@patient
@given(runs(most=12), st.data())
def test_any_order_and_repetition_leaves_the_same_open(run: Run, data: st.DataObject) -> None:
    again = data.draw(st.lists(st.sampled_from(run.reports)))
    alerts = book(*data.draw(st.permutations(run.reports + again)))
    found = {stored.alert.resource: stored.alert for stored, is_open in alerts.listed("first") if is_open}
    assert found == run.open_alerts
    assert alerts == book(*run.reports)


def test_one_whose_end_was_lost_ends_when_the_next_opens() -> None:
    alerts = NodeAlerts()
    alerts.add(word(1, START))
    alerts.add(word(5, START + 60))
    assert open_ones(alerts) == [START + 60]


def test_one_whose_end_was_lost_ends_with_the_heartbeat_that_does_not_tell_of_it() -> None:
    alerts = NodeAlerts()
    alerts.add(word(3, START))
    assert list(alerts.open_alerts("first", complete_until=3)) == [Resource.CPU]
    assert list(alerts.open_alerts("first", complete_until=4)) == []


def test_a_new_run_closes_the_alerts_of_the_one_before() -> None:
    alerts = NodeAlerts()
    alerts.add(word(1, START))
    assert open_ones(alerts) == [START]
    assert open_ones(alerts, boot="second") == []


def test_only_the_latest_are_kept_and_the_open_one_is_among_them() -> None:
    alerts = NodeAlerts()
    for number in reversed(range(100)):
        alerts.add(word(number + 1, START + number, closed_at=None if number == 99 else START + number))
    assert len(list(alerts.listed("first"))) == KEPT
    assert open_ones(alerts) == [START + 99]

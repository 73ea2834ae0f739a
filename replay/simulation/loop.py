"""When policies run in a simulation, as in the collector's control loop: on alerts, then on the timer."""

from collections.abc import Callable
from math import ceil, inf

from collector.act.records import Trigger
from replay.simulation.cluster import SOON
from replay.simulation.collector import SimulatedCollector
from replay.simulation.control import SimulatedControl
from replay.simulation.policy_runs import PolicyRun


class SimulatedLoop:
    """Answers alerts while one is open, and runs the policy of the timer when it is due.

    One decision is carried out at a time; what is due meanwhile comes after it. Alerts are checked as often
    as live. A check without a decision is not repeated before agents report again, or a move has settled:
    until then only ages change.
    """

    def __init__(
        self,
        policy_run: PolicyRun,
        collector: SimulatedCollector,
        control: SimulatedControl,
        send_beacons: Callable[[float], None],
        *,
        first_check: float,
    ) -> None:
        settings = policy_run.collector.control
        self._alerts, self._timer = policy_run.alerts, policy_run.timer
        self._collector, self._control, self._send_beacons = collector, control, send_beacons
        self._first_check, self._check_seconds = first_check, settings.check_seconds
        self._quiet_seconds = min(settings.settle_seconds, settings.cool_down_seconds)
        self._quiet_until = -inf
        self._seen_reports = 0
        """The number of reports at the last check."""
        self._timer_is_due = False

    def call_timer(self) -> None:
        """Let the policy of the timer run, now or after the decision that is being carried out."""
        self._timer_is_due = self._timer is not None

    def next_check(self, now: float) -> float:
        """The time of the next check at which an answer to alerts can be due."""
        if self._alerts is None or self._control.is_busy or not self._collector.has_alert:
            return inf
        has_news = self._collector.reports_received != self._seen_reports
        earliest = now + SOON if has_news else max(now + SOON, self._quiet_until)
        checks = ceil((earliest - self._first_check) / self._check_seconds)
        return self._first_check + checks * self._check_seconds

    def run(self, now: float) -> None:
        """Make the decisions that are due."""
        if not self._collector.has_alert:
            self._control.forget_answer()
        if self._alerts is not None and self.next_check(now - 2 * SOON) <= now + SOON:
            self._seen_reports = self._collector.reports_received
            self._send_beacons(now)
            self._control.decide(Trigger.ALERT, self._alerts, now)
            self._quiet_until = -inf if self._control.is_busy else now + self._quiet_seconds
        if self._timer is not None and self._timer_is_due and not self._control.is_busy:
            self._timer_is_due = False
            self._send_beacons(now)
            self._control.decide(Trigger.TIMER, self._timer, now)

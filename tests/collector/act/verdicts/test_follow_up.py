"""Verdicts of a collector whose nodes report their energy, on a clock that the test turns."""

from pathlib import Path

import msgspec
import pytest

from collector.act.loop import Actor
from collector.act.records import Decision, Effect, Trigger, Verdict
from collector.act.verdicts.assess import Evidence, assess
from collector.act.verdicts.follow_up import follow_up
from tests.collector.act.builders import FakeDriver, Stage, actor_of, staged
from tests.collector.act.verdicts.builders import decided, moved
from tests.collector.builders import HEARTBEAT, partial_report, state
from wire.messages import NodePower, PowerSource

_BEAT_SECONDS, _HOUR = 300.0, 3600.0


class Cluster:
    """Nodes of which alpha draws 100 W until the decision, and 60 W from then on; all follow one load."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._sequence, self._joules = stage, 0, dict.fromkeys(("alpha", "beta", "gamma"), 0.0)
        self.alpha_watts = 100.0

    async def run(self, seconds: float) -> None:
        """Report a heartbeat of each node every five minutes, as agents do."""
        clock, history = self._stage.clock, self._stage.core.history
        until = clock.now + seconds
        while clock.now < until:
            clock.now += _BEAT_SECONDS
            self._sequence += 1
            load = 1.0 + 0.3 * (self._sequence % 24) / 24
            for node, watts in (("alpha", self.alpha_watts), ("beta", 80.0), ("gamma", 120.0)):
                self._joules[node] += load * watts * _BEAT_SECONDS
                power = NodePower(load * watts, 30.0, 0.0, PowerSource.RAPL, 0.03, self._joules[node])
                own = msgspec.structs.replace(state(), power=power)
                report = partial_report(
                    node, sequence=self._sequence, at=clock.now, state=own, heartbeat=HEARTBEAT
                )
                await history.add([report], clock.now)
                self._stage.core.registry.apply(report, clock.now)
            await history.apply_retention(clock.now)


async def verdicts(actor: Actor, decision: str) -> tuple[Verdict, ...]:
    await follow_up(actor.situation)
    return actor.situation.journal.require(decision).verdicts


@pytest.mark.slow
async def test_watts_are_measured_after_an_hour_by_the_energy_accounts(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        cluster = Cluster(stage)
        await cluster.run(8 * _HOUR)
        actor, now = await actor_of(stage, FakeDriver()), stage.clock.now
        decision = decided(
            moved(reliefs=()), at=now, ended_at=now + 5, trigger=Trigger.TIMER, policy="least-watts",
            watts_before=300.0, watts_after=262.0,
        )  # fmt: skip
        await actor.situation.journal.add(decision, b"")
        cluster.alpha_watts = 60.0
        await cluster.run(600)
        assert await verdicts(actor, decision.id) == ()
        await cluster.run(_BEAT_SECONDS)
        (early,) = await verdicts(actor, decision.id)
        assert early.effect is Effect.UNKNOWN
        assert early.why_unknown == "energy is accounted by five minutes: the period is too short"
        await cluster.run(_HOUR + 600)
        _, hourly = await verdicts(actor, decision.id)
        # The load is between 1 and 1.3 of these 40 W.
        assert hourly.saved_watts is not None
        assert hourly.error_watts is not None
        assert 40 <= hourly.saved_watts <= 52
        assert hourly.error_watts < 4
        assert (hourly.promised_watts, hourly.effect) == (38.0, Effect.HELPED)


async def test_a_verdict_that_fails_is_recorded_and_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails_once(decision: Decision, seconds: float, evidence: Evidence) -> Verdict:
        if decision.id == "broken":
            raise ZeroDivisionError("division by zero")
        return assess(decision, seconds, evidence)

    monkeypatch.setattr("collector.act.verdicts.follow_up.assess", fails_once)
    async with staged(tmp_path) as stage:
        actor, now = await actor_of(stage, FakeDriver()), stage.clock.now
        for name in ("broken", "other"):
            await actor.situation.journal.add(decided(id=name, at=now, ended_at=now + 5), b"")
            now += 1
        stage.clock.now += 700
        stage.begin()
        (unknown,) = await verdicts(actor, "broken")
        assert unknown.effect is Effect.UNKNOWN
        assert unknown.why_unknown is not None
        assert "division by zero" in unknown.why_unknown
        (told,) = await verdicts(actor, "other")
        assert told.effect is Effect.USELESS

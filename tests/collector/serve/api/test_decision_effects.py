"""What decisions brought, of a collector that was restarted: the API and the metrics."""

from pathlib import Path

from collector.act.journal import open_journal
from collector.common.outages import Outages
from collector.history.sqlite.history import open_history
from tests.collector.act.verdicts.builders import decided, judged
from tests.collector.builders import START, collecting, settings
from tests.collector.serve.api.test_metrics import scraped

DAY = 86_400.0


async def test_effects_of_decisions_survive_a_restart(tmp_path: Path) -> None:
    config = settings(tmp_path / "history.db")
    saved = judged(closed=True, alerts=(), promised_watts=50.0, saved_watts=40.0, error_watts=10.0)
    decisions = [
        decided(id="useless", at=START - DAY, ended_at=START - DAY, verdicts=(judged(closed=False),)),
        decided(id="helped", at=START - DAY, ended_at=START - DAY, verdicts=(judged(closed=True),)),
        decided(id="saved", at=START - DAY, ended_at=START - DAY, policy="least-watts", verdicts=(saved,)),
        decided(id="old", at=START - 8 * DAY, ended_at=START - 8 * DAY, verdicts=(judged(closed=False),)),
    ]
    async with open_history(config, Outages()) as history:
        journal = await open_journal(history, config.control)
        for each in decisions:
            await journal.add(each, b"")
    async with collecting(config) as collector:
        status, found = await collector.ask("/v1/decisions/effect")
        assert status == 200
        assert found["worst"] == ["useless", "saved", "helped"]
        draps, least_watts = found["deciders"]
        assert draps["effects"] == {"helped": 1, "useless": 1}
        assert (draps["alerts"], draps["closed_alerts"], draps["moves"]) == (2, 1, 2)
        assert draps["caution"] > 1
        assert draps["why"].startswith("1 of 2 answered alerts ended")
        assert (least_watts["saved_joules"], least_watts["promised_joules"]) == (24_000, 30_000)
        (journaled,) = (await collector.ask("/v1/decisions?id=useless"))[1]["decisions"]
        assert journaled["verdicts"][0]["alerts"][0]["level_after"] == 0.95
        _, earlier = await collector.ask("/v1/decisions/effect?days=30")
        assert "old" in earlier["worst"]
        lines = (await scraped(collector)).splitlines()
    for line in (
        'wattpack_decision_saved_joules{policy="least-watts"} 24000.0',
        'wattpack_decision_verdicts{effect="useless",policy="draps"} 1.0',
        'wattpack_decision_closed_alerts{policy="draps"} 1.0',
        'wattpack_decision_caution_ratio{policy="least-watts"} 1.0',
    ):
        assert line in lines

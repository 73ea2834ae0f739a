from pathlib import Path

import pytest

from collector.analysis.bottlenecks import BottleneckKind
from collector.serve.api.alerts import cluster_alerts
from tests.collector.builders import START, Clock, apply_report, container, report
from tests.collector.features.promises.tracking.builders import Node, promised
from tests.collector.runtime.test_analysis import analysis_job


async def test_a_promise_that_breaks_is_an_alert_until_it_is_kept_again(tmp_path: Path) -> None:
    clock = Clock()
    async with analysis_job(tmp_path / "history.db", clock) as (core, job):
        node = Node(core.registry)
        node.start(START, promised("shop-1"))
        clock.now += 100
        node.heartbeat(clock.now)
        assert not await job.detect()
        node.stop(clock.now, "shop-1")
        (opened,) = await job.detect()
        assert (opened.finding.kind, opened.finding.subject) == (BottleneckKind.PROMISE, "shop")
        assert "will break its promise in 11 s" in opened.finding.evidence
        clock.now += 100
        assert not await job.detect()
        (broken,) = (
            each for each in core.analysis.bottlenecks if each.finding.kind is BottleneckKind.PROMISE
        )
        assert broken.id == opened.id
        assert "breaks its promise" in broken.finding.evidence
        (listed,) = (each for each in cluster_alerts(core) if each.kind is BottleneckKind.PROMISE)
        assert (listed.subject, listed.node) == ("shop", None)
        node.start(clock.now, promised("shop-1"))
        # The time that it lacks, and the time without a finding after which an alert closes.
        for _ in range(30):
            clock.now += 60
            node.heartbeat(clock.now)
            if changed := await job.detect():
                assert [each.is_open for each in changed] == [False]
                return
        pytest.fail("the alert stays open")


async def test_a_label_that_names_no_class_of_promises_is_an_alert(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    async with analysis_job(tmp_path / "history.db", clock) as (core, job):
        node = Node(core.registry)
        node.start(START, promised("shop-1", labels={"wattpack.slo": "siver"}))
        with caplog.at_level("INFO"):
            (opened,) = await job.detect()
        assert (opened.finding.kind, opened.finding.subject) == (BottleneckKind.PROMISE, "shop")
        assert opened.finding.evidence == (
            "shop has the label wattpack.slo=siver, but [slo] has no such class: did you mean silver?"
        )
        assert f"alert of kind promise opened: {opened.finding.evidence}" in caplog.messages


async def test_the_detection_covers_the_containers_of_all_nodes(tmp_path: Path) -> None:
    clock, count = Clock(), 11
    async with analysis_job(tmp_path / "history.db", clock) as (core, job):
        for number in range(count):
            web = container(f"web-{number}", service="web")
            odd = container(f"odd-{number}", service=f"odd-{number}", labels={"wattpack.slo": "siver"})
            apply_report(core.registry, report(f"node-{number}", containers=[web, odd]), START)
        assert {each.finding.subject for each in await job.detect()} == {
            f"odd-{number}" for number in range(count)
        }
        clock.now += 10
        powers = {each.service: each for each in core.registry.service_powers(clock.now)}
        assert powers["web"].watts == 2.5 * count
        assert powers["web"].joules_total == pytest.approx(10 * 2.5 * count)

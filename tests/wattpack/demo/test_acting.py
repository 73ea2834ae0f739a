"""The collector of the demo scales its elastic service, and stops and starts its optional one."""

import asyncio
import json
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from collector.config import CollectorConfig, ControlConfig
from collector.features.brownout.settings import BrownoutConfig
from collector.features.elastic.scaling.interface import Target
from tests.lab.waiting import eventually
from wattpack.demo import load, run
from wattpack.demo.run import DemoOptions, running_demo


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=20) as answer:  # noqa: S310 - loopback, our own
        return json.loads(answer.read())


def hurried(make: Callable[..., CollectorConfig]) -> Callable[..., CollectorConfig]:
    """The same settings, with shorter times."""

    def make_config(*arguments: Any) -> CollectorConfig:
        return msgspec.structs.replace(
            make(*arguments),
            control=ControlConfig(check_seconds=0.4, settle_seconds=1.0),
            brownout=BrownoutConfig(step_seconds=1.0, calm_seconds=1.0),
            elastic={
                "search_suggest": Target(
                    metric_max=0.25,
                    replicas_min=2,
                    replicas_max=20,
                    decide_seconds=2.0,
                    cool_down_seconds=2.0,
                )
            },
        )

    return make_config


@pytest.mark.slow
async def test_the_load_scales_one_service_and_a_shortage_stops_another_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_SAMPLE_SECONDS", 1.0)
    monkeypatch.setattr(run, "demo_config", hurried(run.demo_config))
    monkeypatch.setattr(load, "SURGE_AFTER_SECONDS", 0.0)
    monkeypatch.setattr(load, "SURGE_SECONDS", load.SURGE_EVERY_SECONDS)
    monkeypatch.setattr(load, "visitors", lambda since: 5.0 if since > 0 else 1.0)
    options = DemoOptions(folder=tmp_path, nodes=8, containers=60, days=0.1)
    async with running_demo(options) as collector:
        url = collector.address.url

        def steps(trigger: str) -> list[dict[str, Any]]:
            decisions = get(f"{url}/v1/decisions")["decisions"]
            done = [each for each in decisions if (each["trigger"], each["outcome"]) == (trigger, "done")]
            return [step for each in sorted(done, key=lambda each: each["at"]) for step in each["steps"]]

        def wait(what: Callable[[], Any]) -> Awaitable[Any]:
            return asyncio.to_thread(eventually, what, 90, every_seconds=0.5)

        (scaled, *_) = await wait(lambda: steps("elastic"))
        assert (scaled["action"]["service"], scaled["state"]) == ("search_suggest", "verified")
        assert scaled["action"]["replicas"] > scaled["action"]["replicas_before"]
        await wait(lambda: get(f"{url}/v1/elastic")["elastic"][0]["observed"]["metric"])

        (stopped,) = await wait(lambda: steps("brownout"))
        assert (stopped["action"]["service"], stopped["state"]) == ("data_dashboards", "verified")
        assert stopped["action"]["replicas"] == 0
        monkeypatch.setattr(load, "SURGE_SECONDS", -1.0)
        _, started = await wait(lambda: found if len(found := steps("brownout")) > 1 else None)
        assert (started["action"]["service"], started["state"]) == ("data_dashboards", "verified")
        assert started["action"]["replicas"] == stopped["action"]["replicas_before"]

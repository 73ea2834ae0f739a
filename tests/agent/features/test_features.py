"""The agent without each of its features: their folders and lines can be deleted."""

import sys
from pathlib import Path

import aiohttp
import msgspec
import pytest

from agent import features
from agent.features import FEATURES, Feature, load_features, settings_class
from agent.main import running
from tests.agent.trees import make_host, make_v2
from wattpack.config.loader import Sources, keys, load
from wire.errors import UserError


@pytest.fixture(params=FEATURES)
def hidden(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Feature:
    """A feature whose folder and line are gone."""
    feature = load_features()[FEATURES.index(request.param)]
    package = f"agent.features.{request.param}"
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(features, "FEATURES", tuple(name for name in FEATURES if name != request.param))
    return feature


async def test_the_agent_runs_without_a_feature(tmp_path: Path, hidden: Feature) -> None:
    host = make_host(tmp_path)
    make_v2(host)
    tables = {
        "http": {"listen": "127.0.0.1:0"},
        "collector": {"enabled": False},
        "docker": {"socket": ""},
        "storage": {"directory": ""},
        "host": {"root": str(tmp_path)},
    }
    config = msgspec.convert(tables, settings_class())
    async with (
        running(config) as agent,
        aiohttp.ClientSession() as http,
        http.get(f"{agent.address.url}/metrics") as answer,
    ):
        text = await answer.text()
    assert "wattpack_agent_samples_total" in text
    assert not [spec.name for spec in hidden.metrics if spec.name in text]


def test_its_table_is_unknown_without_it(hidden: Feature) -> None:
    whole = settings_class()
    tables = {key.path[0] for key in keys(whole)}
    assert hidden.key not in tables
    with pytest.raises(UserError, match=f"unknown key '{hidden.key}'"):
        load(whole, "agent", Sources(base={hidden.key: {"enabled": True}}))


def test_every_feature_is_off_by_default() -> None:
    defaults = {key.dotted: key.default for key in keys(settings_class())}
    assert {defaults[f"{feature.key}.enabled"] for feature in load_features()} == {False}

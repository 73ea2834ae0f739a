from pathlib import Path

import pytest

from collector.config import CollectorConfig
from collector.decide.question import check_policies
from wattpack.config.loader import Sources, load
from wire.errors import UserError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[slo.gold]\navailability = 2\nimportance = 1\n",
            "line 2: slo.gold.availability must be a number <= 1.0, not 2",
        ),
        (
            "[slo.gold]\navailabilty = 1.0\nimportance = 1\n",
            "line 2: unknown key 'slo.gold.availabilty': did you mean 'slo.gold.availability'?",
        ),
        ("[slo.gold]\navailability = 1.0\n", "line 1: slo.gold.importance is missing: set it"),
        (
            '[slo.gold]\navailability = 1.0\nimportance = "x"\n',
            "line 3: slo.gold.importance must be a whole number, not 'x'",
        ),
        ("[slo]\ngold = 1\n", "line 2: slo.gold is a table: put [slo.gold] above its keys"),
        (
            '[promises]\ndefault_class = "golld"\n',
            "line 2: promises.default_class: 'golld' is not a class under [slo]: write one of gold,",
        ),
        (
            '[driver]\nname = "swam"\n',
            "line 2: driver.name must be one of none, swarm, docker, kubernetes, not 'swam': did",
        ),
        (
            '[envelopes]\nbursts = ["disk", "nework"]\n',
            "line 2: envelopes.bursts must be one of cpu, memory, disk, network, not 'nework': did",
        ),
        ("[policies.foo]\na = 1\n", "line 1: policies.foo: there is no policy 'foo'"),
        (
            "[policies.draps]\nmax_move = 1\n",
            "line 1: policies.draps: Object contains unknown field `max_move`: did you mean",
        ),
        ('[control]\npolicy = "dra"\n', "line 2: control.policy: there is no policy 'dra'"),
        (
            '[control]\ntimer_policy = "leest-watts"\n',
            "line 2: control.timer_policy: there is no policy 'leest-watts': did you mean 'least-watts'?",
        ),
        ('[control]\nallowed_times = "25:00-26:00"\n', "line 2: control.allowed_times: invalid time"),
        ('[control]\ntime_zone = "Mars"\n', "line 2: control.time_zone: unknown time zone 'Mars'"),
        ('[history]\nstore = "prometheus"\n', "collector.toml: store.url: empty"),
    ],
)
def test_invalid_setting_is_named_with_its_line(text: str, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "collector.toml"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        load(CollectorConfig, "collector", Sources(file=file), check_policies)
    assert expected in str(caught.value)

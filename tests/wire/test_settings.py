from typing import Annotated

import msgspec
import pytest
from msgspec import Meta

from wattpack.config.loader import Sources, keys, load
from wire.errors import UserError
from wire.settings import NamedTables, Section, Settings, add_tables


class Host(Section, frozen=True):
    """The host."""

    cores: Annotated[int, Meta(ge=1, description="Number of cores.")] = 2


class Core(Settings, frozen=True):
    """A file."""

    host: Host = Host()

    def __post_init__(self) -> None:
        if self.host.cores == 13:
            raise UserError("host.cores: 13 is not supported: choose another number")


class Fan(Section, frozen=True):
    """The fan."""

    speed: Annotated[float, Meta(ge=0, le=1, description="Speed of the fan.")] = 0.5


class Light(Section, frozen=True):
    """A light."""

    watts: Annotated[float, Meta(ge=0, description="Power of the light.")]


def check_power(file: Core) -> None:
    for name, light in file.tables(Light).items():
        if light.watts > 100 * file.section(Fan).speed:
            raise UserError(f"lights.{name}.watts: too hot: choose less")


WHOLE = add_tables(
    Core,
    {
        "fan": Fan,
        "lights": NamedTables(
            kind=Light, description="A table per light.", defaults=lambda: {"red": Light(watts=1.0)}
        ),
    },
    [check_power],
)


def test_a_feature_finds_its_tables_by_their_type() -> None:
    file = msgspec.convert(
        {"host": {"cores": 4}, "fan": {"speed": 1.0}, "lights": {"blue": {"watts": 9}}}, WHOLE
    )

    assert file.host.cores == 4
    assert file.section(Fan).speed == 1.0
    assert file.tables(Light) == {"blue": Light(watts=9)}
    assert isinstance(file, Core)


def test_tables_have_defaults_with_and_without_the_feature() -> None:
    assert WHOLE().section(Fan) == Core().section(Fan) == Fan()
    assert WHOLE().tables(Light) == {"red": Light(watts=1.0)}
    assert Core().tables(Light) == {}


def test_the_loader_lists_and_reads_the_tables_of_features() -> None:
    assert [key.dotted for key in keys(WHOLE)] == ["host.cores", "fan.speed", "lights"]

    file = load(WHOLE, "agent", Sources(environment={"WATTPACK_AGENT_FAN_SPEED": "0.25"}))

    assert file.section(Fan).speed == 0.25


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ({"fans": {}}, "unknown key 'fans'"),
        ({"fan": {"sped": 1.0}}, "unknown key 'fan.sped': did you mean 'fan.speed'?"),
        ({"fan": {"speed": 2.0}}, "fan.speed must be a number <= 1.0, not 2.0"),
        ({"host": {"cores": 13}}, "host.cores: 13 is not supported"),
        ({"lights": {"blue": {"watts": 60.0}}}, "lights.blue.watts: too hot"),
    ],
)
def test_a_wrong_table_is_an_error_that_names_its_key(base: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message.replace("?", r"\?")):
        load(WHOLE, "agent", Sources(base=base))

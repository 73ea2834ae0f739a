from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.config import AgentConfig
from agent.features import settings_class
from collector.config import CollectorConfig
from wattpack.config.loader import Sources, keys, load
from wire.errors import UserError

AGENT = settings_class()


def complaint(text: str = "", tmp_path: Path | None = None, **more: object) -> str:
    file = None
    if tmp_path is not None:
        file = tmp_path / "agent.toml"
        file.write_text(text)
    with pytest.raises(UserError) as caught:
        load(AGENT, "agent", Sources(file=file, **more))  # type: ignore[arg-type]
    return str(caught.value).replace(str(file), "agent.toml")


def test_empty_file_has_all_defaults(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text("")
    assert load(AGENT, "agent", Sources(file=file)) == AGENT()


def test_precedence_of_file_environment_and_flag(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text('node = "file"\n[sampling]\ninterval_seconds = 5\n[docker]\nsocket = ""\n')
    config = load(
        AGENT,
        "agent",
        Sources(
            base={"node": "base", "http": {"listen": "127.0.0.1:1"}},
            file=file,
            environment={
                "WATTPACK_AGENT_SAMPLING_INTERVAL_SECONDS": "6",
                "WATTPACK_AGENT_NODE": "environment",
            },
            assignments=["node=flag"],
        ),
    )
    assert config.node == "flag"
    assert config.sampling.interval_seconds == 6
    assert config.docker.socket == ""
    assert config.http.listen == "127.0.0.1:1"


def test_unknown_key_suggests_the_nearest(tmp_path: Path) -> None:
    assert complaint("# hello\n\n[sampling]\ninterval_second = 3\n", tmp_path) == (
        "agent.toml, line 4: unknown key 'sampling.interval_second':"
        " did you mean 'sampling.interval_seconds'?"
    )


def test_key_in_the_wrong_table_suggests_the_right_one(tmp_path: Path) -> None:
    assert "did you mean 'docker.socket'?" in complaint('[sampling]\nsocket = "/x"\n', tmp_path)


def test_unknown_table_is_a_user_error(tmp_path: Path) -> None:
    assert "line 1: unknown key 'sampler'" in complaint("[sampler]\ninterval_seconds = 3\n", tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[sampling]\ninterval_seconds = 0.01\n",
            "agent.toml, line 2: sampling.interval_seconds must be a number >= 0.2, not 0.01",
        ),
        ("sampling.interval_seconds = 0.01\n", "agent.toml, line 1: sampling.interval_seconds must be"),
        ("node = 3\n", "agent.toml, line 1: node must be a text, not 3"),
        ("sampling = 3\n", "agent.toml, line 1: sampling is a table"),
        ('[http]\nlisten = "here"\n', "agent.toml, line 2: http.listen: 'here' is not an address"),
        (
            '[mesh]\nenabled = true\nlisten = "9641"\n',
            "agent.toml, line 3: mesh.listen: '9641' is not an IP address with a port: write one such as",
        ),
        (
            '[mesh]\nadvertise = "web1"\n',
            "agent.toml, line 2: mesh.advertise: 'web1' is not an IP address: write one such as 10.0.0.5 or",
        ),
        ("node = \n", "agent.toml is not TOML: invalid value (at line 1"),
    ],
)
def test_invalid_value_names_its_line(text: str, expected: str, tmp_path: Path) -> None:
    assert complaint(text, tmp_path).startswith(expected)


def test_invalid_override_names_its_source() -> None:
    assert complaint(assignments=["sampling.interval_seconds=x"]) == (
        "--set: sampling.interval_seconds must be a number, not 'x'"
    )
    assert complaint(assignments=["interval_seconds=3"]).endswith("did you mean 'sampling.interval_seconds'?")
    assert complaint(assignments=["nonsense"]).startswith("--set nonsense: use KEY=VALUE")
    assert complaint(environment={"WATTPACK_AGENT_SAMPLING_INTERVAL": "3"}).endswith(
        "did you mean 'WATTPACK_AGENT_SAMPLING_INTERVAL_SECONDS'?"
    )
    assert complaint(environment={"WATTPACK_AGENT_HTTP_LISTEN": "x"}).startswith(
        "environment variable WATTPACK_AGENT_HTTP_LISTEN: http.listen: 'x' is not an address"
    )


def test_an_override_does_not_hide_a_value_where_a_table_belongs(tmp_path: Path) -> None:
    said = complaint("sampling = 3\n", tmp_path, assignments=["sampling.interval_seconds=3"])
    assert said.startswith("agent.toml, line 1: sampling is a table")


def test_tables_by_pattern(tmp_path: Path) -> None:
    file = tmp_path / "collector.toml"
    file.write_text('[nodes."rack1-*"]\n"wattpack.generation" = "old"\nzone = "a"\n')
    config = load(CollectorConfig, "collector", Sources(file=file))
    assert config.nodes == {"rack1-*": {"zone": "a", "wattpack.generation": "old"}}
    file.write_text('[nodes."rack1-*"]\nzone = 1\n')
    with pytest.raises(UserError, match=r"line 2: nodes\.rack1-\*\.zone must be a text, not 1$"):
        load(CollectorConfig, "collector", Sources(file=file))
    with pytest.raises(UserError, match="WATTPACK_COLLECTOR_NODES: nodes must be tables"):
        load(CollectorConfig, "collector", Sources(environment={"WATTPACK_COLLECTOR_NODES": "rack1"}))


def test_variables_of_the_other_role_are_ignored() -> None:
    config = load(AGENT, "agent", Sources(environment={"WATTPACK_COLLECTOR_NONSENSE": "1", "HOME": "/"}))
    assert config == AGENT()


def test_unreadable_file_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file or directory"):
        load(AGENT, "agent", Sources(file=tmp_path / "absent.toml"))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="not UTF-8"):
        load(AGENT, "agent", Sources(file=tmp_path / "binary.toml"))


@given(st.text())
def test_any_text_is_a_configuration_or_a_user_error(text: str) -> None:
    with suppress(UserError):
        assert isinstance(load(AGENT, "agent", Sources(assignments=[text])), AGENT)


@pytest.mark.parametrize("config", [AGENT, CollectorConfig])
def test_every_key_has_a_description_and_a_default(config: type[AgentConfig | CollectorConfig]) -> None:
    for key in keys(config):
        assert key.description, key.dotted
        assert key.default is not None, key.dotted

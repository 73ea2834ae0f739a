from pathlib import Path

import pytest

from agent.config import AgentConfig
from collector.config import CollectorConfig
from wattpack.cli import main
from wattpack.config.options import from_credentials


def test_web_configuration_from_credentials(tmp_path: Path) -> None:
    environment = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert from_credentials(AgentConfig, environment) == {}
    (tmp_path / "web.yml").touch()
    assert from_credentials(AgentConfig, environment) == {"http": {"web_config": f"{tmp_path}/web.yml"}}
    assert from_credentials(CollectorConfig, environment) == {}
    assert from_credentials(AgentConfig, {}) == {}


def test_token_and_certificates_from_credentials(tmp_path: Path) -> None:
    environment = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    for name in ("token", "tls.crt", "tls.key", "client-ca.crt"):
        (tmp_path / name).touch()
    assert from_credentials(AgentConfig, environment) == {"collector": {"token_file": f"{tmp_path}/token"}}
    assert from_credentials(CollectorConfig, environment) == {
        "tls": {
            "certificate": f"{tmp_path}/tls.crt",
            "key": f"{tmp_path}/tls.key",
            "client_ca": f"{tmp_path}/client-ca.crt",
        }
    }


def test_check_config_checks_tokens_and_certificates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for role, text, sentence in (
        ("agent", '[collector]\ntoken_file = "/none"\n', "check collector.token_file"),
        ("agent", '[collector]\nurl = "https://x"\nca_file = "/none"\n', "check collector.ca_file"),
        ("collector", '[tls]\ncertificate = "/none.crt"\nkey = "/none.key"\n', "cannot read /none.crt"),
    ):
        file = tmp_path / f"{role}.toml"
        file.write_text(text)
        assert main(["admin", "check-config", role, str(file)]) == 2
        assert sentence in capsys.readouterr().err


def test_check_config_checks_the_web_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, web = tmp_path / "agent.toml", tmp_path / "web.yml"
    web.write_text("basic_auth_users: {alice: secret}\n")
    file.write_text("")
    assert main(["admin", "check-config", "agent", str(file)]) == 0
    capsys.readouterr()

    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert main(["admin", "check-config", "agent", str(file)]) == 2
    assert capsys.readouterr().err.startswith(f"wattpack: {web}: basic_auth_users.alice is not a bcrypt hash")

    file.write_text('[http]\nweb_config = ""\n')
    assert main(["admin", "check-config", "agent", str(file)]) == 0, (
        "an empty key serves plainly, whatever there is"
    )

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.certificates import Authority
from tests.lab.stores.prometheus import promtool_check_web_config
from wire.errors import UserError
from wire.http.webconfig import ClientAuth, TlsVersion, parse_web_config, read_web_config

HASH = "$2y$04$Qu5XEbFdVTQkzFnsdcpNCeXqB21LPmAKMnjhQ9bp29Oezn22kJrnC"


def test_everything_that_is_supported_is_read(tmp_path: Path) -> None:
    file = tmp_path / "web.yml"
    file.write_text(
        f"""\
tls_server_config:
  cert_file: tls/server.crt
  key_file: /etc/keys/server.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.crt
  min_version: TLS13
basic_auth_users:
  alice: {HASH}
"""
    )
    config = read_web_config(file)
    tls = config.tls_server_config
    assert tls
    assert tls.cert_file == str(tmp_path / "tls/server.crt")
    assert tls.key_file == "/etc/keys/server.key"
    assert tls.client_ca_file == str(tmp_path / "ca.crt")
    assert tls.client_auth_type is ClientAuth.REQUIRED
    assert tls.min_version is TlsVersion.TLS13
    assert config.basic_auth_users == {"alice": HASH}


def test_an_empty_file_asks_for_nothing() -> None:
    config = parse_web_config("# all comments\n", "web.yml")
    assert (config.tls_server_config, config.basic_auth_users) == (msgspec.UNSET, {})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tls: {}", "tls is not supported: remove it"),
        ("rate_limit: {burst: 20}", "rate_limit is not supported: remove it"),
        ("tls_server_config:", "tls_server_config must be a mapping, not empty"),
        ("tls_server_config: {cert_file: a}", "tls_server_config.key_file is missing"),
        ("http_server_config: {http2: true}", "http_server_config is not supported: remove it"),
        ("basic_auth_users: {alice: secret}", "basic_auth_users.alice is not a bcrypt hash: create one with"),
        ("basic_auth_users: {alice: 1}", "basic_auth_users must be a string, not int"),
        ("basic_auth_users: {1: x}", "basic_auth_users must be a string, not int"),
        ("[]", "the file must be a mapping, not a list"),
    ],
)
def test_what_is_wrong_or_not_supported_is_named_with_its_key(text: str, complaint: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_web_config(text, "web.yml")
    assert str(caught.value).startswith(f"web.yml: {complaint}")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("curve_preferences: [X25519]", ".curve_preferences is not supported: remove it"),
        ("client_allowed_sans: [a]", ".client_allowed_sans is not supported: remove it"),
        ("client_ca_file: 1", ".client_ca_file must be a string, not int"),
        (
            "client_auth_type: RequestClientCert",
            ".client_auth_type: RequestClientCert is not supported: use one of NoClientCert, Verify",
        ),
        ("min_version: TLS10", ".min_version: TLS10 is not supported: use one of TLS12, TLS13"),
        ("cipher_suites: [RC4]", ".cipher_suites is not supported: remove it"),
        ("client_ca_file: ca", ": client_ca_file has no effect without client_auth_type"),
        (
            "client_auth_type: VerifyClientCertIfGiven",
            ": client_auth_type: VerifyClientCertIfGiven requires client_ca_file",
        ),
    ],
)
def test_so_is_what_is_wrong_about_tls(line: str, complaint: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_web_config(f"tls_server_config:\n  cert_file: a\n  key_file: b\n  {line}\n", "web.yml")
    assert str(caught.value).startswith(f"web.yml: tls_server_config{complaint}")


def test_a_duplicate_key_is_rejected() -> None:
    with pytest.raises(UserError, match="line 3: invalid YAML: 'alice' occurs twice"):
        parse_web_config(f"basic_auth_users:\n  alice: {HASH}\n  alice: {HASH}\n", "web.yml")


def test_a_complaint_never_shows_a_hash() -> None:
    with pytest.raises(UserError) as caught:
        parse_web_config(f"basic_auth_users: {{alice: {HASH[:-1]}}}", "web.yml")
    assert HASH[7:20] not in str(caught.value)


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file or directory"):
        read_web_config(tmp_path / "absent.yml")
    (tmp_path / "binary.yml").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="not UTF-8"):
        read_web_config(tmp_path / "binary.yml")


@given(st.text() | st.text(alphabet=":-{}[]&*!|>'\"%@ \n\tab1"))
def test_any_text_is_a_web_configuration_or_a_complaint(text: str) -> None:
    with suppress(UserError):
        parse_web_config(text, "web.yml")


HASHES = st.sampled_from([HASH, HASH.replace("$04$", "$03$"), HASH.replace("$2y$", "$2b$"), "x"])
FILES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "tls_server_config": st.fixed_dictionaries(
            {"cert_file": st.just("server.crt"), "key_file": st.just("server.key")},
            optional={
                "client_auth_type": st.sampled_from([*ClientAuth, "RequestClientCert", "Any"]),
                "client_ca_file": st.just("authority.crt"),
                "min_version": st.sampled_from(["TLS10", "TLS12", "TLS13"]),
            },
        ),
        "basic_auth_users": st.dictionaries(st.text(max_size=3), HASHES, max_size=2),
    },
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("web")
    Authority(folder).issue("server")
    return folder


@pytest.mark.lab
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(content=FILES)
def test_whatever_we_accept_promtool_accepts(folder: Path, content: dict[str, Any]) -> None:
    file = folder / "web.yml"
    file.write_text(json.dumps(content, ensure_ascii=False))
    try:
        read_web_config(file)
    except UserError:
        return
    assert promtool_check_web_config(file) == ""

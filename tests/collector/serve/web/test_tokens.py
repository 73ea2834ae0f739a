import os
import resource
import stat
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.serve.web import tokens as token_file
from collector.serve.web.scopes import Caller, Scope
from collector.serve.web.tokens import (
    KINDS,
    Token,
    TokenFile,
    Tokens,
    edit_tokens,
    make_token,
    parse_tokens,
    read_tokens,
)
from tests.collector.builders import START, Clock
from wire.errors import UserError


def add(path: Path, kind: Scope, name: str, expires_at: float | None = None) -> tuple[Token, str]:
    token, secret = make_token(kind, name, START, expires_at)
    with edit_tokens(path) as tokens:
        tokens.append(token)
    return token, secret


@given(kind=st.sampled_from(KINDS), name=st.text(min_size=1, max_size=20))
def test_secret_identifies_its_token_only(kind: Scope, name: str) -> None:
    token, secret = make_token(kind, name, START)
    _, other = make_token(kind, name, START)
    tokens = Tokens([token])
    caller = tokens.caller(secret.encode(), START)
    assert caller is not None
    assert caller.scope is kind
    assert caller.may_report_for(name)
    assert caller.may_report_for(name + "x") == (kind is not Scope.NODE)
    for wrong in (other, secret[:-1], secret + " ", "", token.sha256 or "", token.id):
        assert tokens.caller(wrong.encode(), START) is None


def test_stored_token_does_not_contain_the_secret() -> None:
    token, secret = make_token(Scope.READ, "grafana", START)
    assert secret.startswith("wattpack-read-")
    assert secret.removeprefix("wattpack-read-") not in repr(token)


def test_scopes_of_each_kind() -> None:
    assert {kind: {scope for scope in Scope if Caller(kind).may(scope)} for kind in KINDS} == {
        Scope.NODE: {Scope.OPEN, Scope.NODE},
        Scope.READ: {Scope.OPEN, Scope.READ},
        Scope.PLACE: {Scope.OPEN, Scope.READ, Scope.PLACE},
        Scope.JOIN: {Scope.OPEN, Scope.JOIN},
        Scope.ADMIN: set(Scope),
    }


def test_expired_token_is_invalid() -> None:
    token, secret = make_token(Scope.READ, "guest", START, START + 10)
    tokens = Tokens([token])
    assert tokens.caller(secret.encode(), START + 9.9) is not None
    assert tokens.caller(secret.encode(), START + 10) is None


def test_token_file_is_private_and_round_trips(tmp_path: Path) -> None:
    path = tmp_path / "made" / "tokens.jsonl"
    assert read_tokens(path) is None
    first, _ = add(path, Scope.NODE, "alpha")
    second, _ = add(path, Scope.ADMIN, "ärger", START + 1)
    assert read_tokens(path) == [first, second]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_token_file_belongs_to_the_owner_of_the_folder(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("ownership: needs root")
    os.chown(tmp_path, 12345, 54321)
    add(tmp_path / "tokens.jsonl", Scope.NODE, "alpha")
    status = (tmp_path / "tokens.jsonl").stat()
    assert (status.st_uid, status.st_gid) == (12345, 54321)


def test_failed_edit_leaves_the_file_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "tokens.jsonl"
    first, _ = add(path, Scope.NODE, "alpha")
    with pytest.raises(IndexError), edit_tokens(path) as tokens:
        del tokens[0], tokens[0]
    assert read_tokens(path) == [first]


def test_token_file_writable_by_others_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "tokens.jsonl"
    add(path, Scope.NODE, "alpha")
    path.chmod(0o620)
    with pytest.raises(UserError, match="chmod 600"):
        read_tokens(path)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("{", r"t, line 2 is not a token: Input data was truncated"),
        ("[]", r"t, line 2 is not a token"),
        ('{"id": "000000000000", "kind": "open"}', r"t, line 2 is not a token: .* missing"),
        (
            '{"id":"000000000000","kind":"open","name":"x","sha256":"' + "0" * 64 + '","created_at":1}',
            "a token cannot be of kind open",
        ),
    ],
)
def test_invalid_line_is_named(line: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        parse_tokens(f"\n{line}\n".encode(), "t")


def test_duplicate_token_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "tokens.jsonl"
    add(path, Scope.NODE, "alpha")
    with pytest.raises(UserError, match=r"line 2: duplicate token"):
        parse_tokens(path.read_bytes() * 2, "t")


def test_a_file_that_could_not_be_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path, clock = tmp_path / "tokens.jsonl", Clock(0.0)
    _, secret = add(path, Scope.READ, "first")
    file = TokenFile(path, monotonic=clock)
    path.write_bytes(b"")

    def fail(_path: Path) -> None:
        raise UserError("too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(token_file, "read_tokens", fail)
        for _ in range(5):
            clock.now += 1
            assert file.tokens.caller(secret.encode(), START) is not None
    assert caplog.text.count("too many open files") == 1
    clock.now += 1
    assert file.tokens.caller(secret.encode(), START) is None


def test_a_token_is_revoked_while_all_descriptors_are_in_use(tmp_path: Path) -> None:
    path, clock = tmp_path / "tokens.jsonl", Clock(0.0)
    _, secret = add(path, Scope.READ, "first")
    file = TokenFile(path, monotonic=clock)
    new = tmp_path / "new"
    new.touch(mode=0o600)
    clock.now += 1
    with ExitStack() as held:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        highest = max(int(each.name) for each in Path("/proc/self/fd").iterdir())
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 10, hard))
        with suppress(OSError):
            while True:
                held.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        with pytest.raises(OSError, match="Too many open files"):
            os.open(path, os.O_RDONLY)
        new.replace(path)
        assert file.tokens.caller(secret.encode(), START) is None


def test_changed_file_is_reloaded_unless_invalid(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, clock = tmp_path / "tokens.jsonl", Clock(0.0)
    _, secret = add(path, Scope.READ, "first")
    file = TokenFile(path, monotonic=clock)
    _, later = add(path, Scope.READ, "second")

    def admitted() -> list[bool]:
        clock.now += 1
        return [file.tokens.caller(each.encode(), START) is not None for each in (secret, later)]

    assert file.tokens.caller(later.encode(), START) is None, "no look at the disk within a second"
    assert admitted() == [True, True]
    whole = path.read_bytes()
    path.write_bytes(whole + b"{")
    assert admitted() == [True, True]
    assert "keeping the previous tokens" in caplog.text
    path.write_bytes(whole.splitlines()[1] + b"\n")
    assert admitted() == [False, True]
    path.unlink()
    assert admitted() == [False, False]

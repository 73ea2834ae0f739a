import json
from pathlib import Path

import pytest

from collector.serve.web.scopes import Scope
from collector.serve.web.tokens import Tokens, read_tokens
from wattpack.cli import main


def token(capsys: pytest.CaptureFixture[str], path: Path, *arguments: str) -> tuple[int, str]:
    status = main(["token", *arguments, "--file", str(path)])
    output = capsys.readouterr()
    return status, output.out + output.err


def test_token_add_list_and_revoke(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tokens.jsonl"
    status, output = token(capsys, path, "add", "node", "web1", "--json")
    (made,) = json.loads(output)
    assert (status, made["kind"], made["name"], made["expires_at"]) == (0, "node", "web1", None)
    caller = Tokens(read_tokens(path) or []).caller(made["secret"].encode(), made["created_at"])
    assert caller is not None
    assert (caller.scope, caller.nodes) == (Scope.NODE, frozenset({"web1"}))

    _, listed = token(capsys, path, "list", "--json")
    assert json.loads(listed) == [{name: made[name] for name in made if name != "secret"}]
    for again in (token(capsys, path, "list")[1], path.read_text()):
        assert made["secret"] not in again

    assert token(capsys, path, "revoke", made["id"])[0] == 0
    assert Tokens(read_tokens(path) or []).caller(made["secret"].encode(), made["created_at"]) is None
    assert "revoked 20" in token(capsys, path, "list")[1], "the name is remembered"
    assert token(capsys, path, "revoke", made["id"])[0] == 2


def test_rotation_replaces_the_secret_and_a_join_token_expires(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tokens.jsonl"
    (old,) = json.loads(token(capsys, path, "add", "node", "web1", "--json")[1])
    status, output = token(capsys, path, "rotate", "web1", "--json")
    (new,) = json.loads(output)
    assert (status, new["name"], new["kind"]) == (0, "web1", "node")
    tokens = Tokens(read_tokens(path) or [])
    now = new["created_at"]
    assert tokens.caller(old["secret"].encode(), now) is None
    assert tokens.caller(new["secret"].encode(), now) is not None
    (join,) = json.loads(token(capsys, path, "add", "join", "web*", "--json")[1])
    assert join["expires_at"] == pytest.approx(join["created_at"] + 86_400)


def test_token_table_ends_with_the_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, output = token(capsys, tmp_path / "tokens.jsonl", "add", "read", "grafana", "--days", "7")
    head, row, empty, secret, last = output.splitlines()
    assert head.split() == ["ID", "KIND", "NAME", "CREATED", "EXPIRES"]
    assert row.split()[1:3] == ["read", "grafana"]
    assert (empty, last) == ("", "Save this secret now: it is not stored and cannot be shown again.")
    assert secret.startswith("wattpack-read-")


def test_revoke_by_name_requires_a_unique_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tokens.jsonl"
    for _ in range(2):
        token(capsys, path, "add", "admin", "me")
    status, output = token(capsys, path, "revoke", "me")
    assert (status, output.startswith("wattpack: 2 tokens have the name 'me': give one of the ids")) == (
        2,
        True,
    )
    first = (read_tokens(path) or [])[0]
    token(capsys, path, "revoke", first.id)
    assert token(capsys, path, "revoke", "me")[0] == 0
    status, output = token(capsys, path, "revoke", "me")
    assert (status, "no token 'me'" in output) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["node", ""], "the name must have 1 to 253 characters"),
        (["node", "n" * 254], "the name must have 1 to 253 characters"),
        (["node", "web1\n00000000  admin"], "the name must have 1 to 253 characters"),
        (["read", "x", "--days", "0"], "--days 0: use"),
    ],
)
def test_invalid_token_arguments_are_user_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    status, output = token(capsys, tmp_path / "tokens.jsonl", "add", *arguments)
    assert (status, output.startswith(f"wattpack: {sentence}")) == (2, True)
    assert not (tmp_path / "tokens.jsonl").exists()


def test_token_file_comes_from_the_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.jsonl"
    assert main(["token", "add", "read", "x", "--set", f"access.tokens={path}"]) == 0
    assert len(read_tokens(path) or []) == 1
    assert main(["token", "list", "--set", "access.tokens="]) == 2
    assert "access.tokens is empty" in capsys.readouterr().err


def test_unwritable_token_file_is_a_user_error(capsys: pytest.CaptureFixture[str]) -> None:
    status, output = token(capsys, Path("/proc/none/tokens.jsonl"), "add", "read", "x")
    assert (status, "cannot write /proc/none/tokens.jsonl" in output) == (2, True)

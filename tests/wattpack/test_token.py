import json
from pathlib import Path

import pytest

from collector.web.scopes import Scope
from collector.web.token_file import read_tokens
from collector.web.tokens import Tokens
from wattpack.cli import main


def token(capsys: pytest.CaptureFixture[str], path: Path, *arguments: str) -> tuple[int, str]:
    status = main(["token", *arguments, "--file", str(path)])
    said = capsys.readouterr()
    return status, said.out + said.err


def test_a_token_is_made_shown_once_and_revoked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tokens.jsonl"
    status, said = token(capsys, path, "add", "node", "web1", "--json")
    (made,) = json.loads(said)
    assert (status, made["kind"], made["name"], made["expires_at"]) == (0, "node", "web1", None)
    caller = Tokens(read_tokens(path) or []).caller(made["secret"].encode(), made["created_at"])
    assert caller is not None
    assert (caller.scope, caller.nodes) == (Scope.NODE, frozenset({"web1"}))

    _, listed = token(capsys, path, "list", "--json")
    assert json.loads(listed) == [{name: made[name] for name in made if name != "secret"}]
    for again in (token(capsys, path, "list")[1], path.read_text()):
        assert made["secret"] not in again

    assert token(capsys, path, "revoke", made["id"])[0] == 0
    assert read_tokens(path) == []
    assert token(capsys, path, "list")[1] == f"There are no tokens in {path}.\n"


def test_the_table_shows_the_secret_below_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, said = token(capsys, tmp_path / "tokens.jsonl", "add", "read", "grafana", "--days", "7")
    head, row, empty, secret, last = said.splitlines()
    assert head.split() == ["ID", "KIND", "NAME", "CREATED", "EXPIRES"]
    assert row.split()[1:3] == ["read", "grafana"]
    assert (empty, last) == ("", "It is shown this once, and stored nowhere.")
    assert secret.startswith("wattpack-read-")


def test_a_name_revokes_only_where_it_is_the_only_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tokens.jsonl"
    for _ in range(2):
        token(capsys, path, "add", "admin", "me")
    status, said = token(capsys, path, "revoke", "me")
    assert (status, said.startswith("wattpack: 'me' is the name of 2 tokens: give one of their ids")) == (
        2,
        True,
    )
    first = (read_tokens(path) or [])[0]
    token(capsys, path, "revoke", first.id)
    assert token(capsys, path, "revoke", "me")[0] == 0
    status, said = token(capsys, path, "revoke", "me")
    assert (status, "there is no token 'me'" in said) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["node", ""], "a name has 1 to 253 characters"),
        (["node", "n" * 254], "a name has 1 to 253 characters"),
        (["read", "x", "--days", "0"], "--days 0: choose"),
    ],
)
def test_what_cannot_be_is_one_clear_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    status, said = token(capsys, tmp_path / "tokens.jsonl", "add", *arguments)
    assert (status, said.startswith(f"wattpack: {sentence}")) == (2, True)
    assert not (tmp_path / "tokens.jsonl").exists()


def test_the_file_is_the_configured_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.jsonl"
    assert main(["token", "add", "read", "x", "--set", f"access.tokens={path}"]) == 0
    assert len(read_tokens(path) or []) == 1
    assert main(["token", "list", "--set", "access.tokens="]) == 2
    assert "access.tokens is empty" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_one_clear_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    status, said = token(capsys, Path("/proc/none/tokens.jsonl"), "add", "read", "x")
    assert (status, "cannot write /proc/none/tokens.jsonl" in said) == (2, True)

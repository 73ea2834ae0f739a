"""`wattpack token`: add, list, rotate and revoke tokens for access to the collector."""

import argparse
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from collector.config import CollectorConfig
from collector.web.scopes import Scope
from collector.web.token_file import edit_tokens, read_tokens
from collector.web.tokens import KINDS, Token, make_token
from wattpack.config.options import add_config_options, load_config
from wire.errors import UserError
from wire.messages import MAX_NAME_LENGTH

_DAY_SECONDS = 86_400
_MAX_DAYS = 36_500
_JOIN_DAYS = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_subparsers(dest="what", required=True, metavar="add|list|rotate|revoke")
    add = what.add_parser("add", help="create a token and print its secret once")
    add.add_argument(
        "kind",
        choices=[kind.value for kind in KINDS],
        help="node: send reports of one node; read: read everything; place: also reserve nodes, as"
        " kube-scheduler does; join: let hosts join with 'wattpack join'; admin: read and change everything",
    )
    add.add_argument(
        "name",
        metavar="NAME",
        help="the node of a node token; a pattern of nodes such as 'web*' of a join token; otherwise a label",
    )
    add.add_argument(
        "--days", type=float, metavar="N", help="expire after N days (default: never; a join token after one)"
    )
    rotate = what.add_parser("rotate", help="replace the secret of a token; the old one is revoked")
    rotate.add_argument("token", metavar="ID", help="id of the token from 'wattpack token list', or its name")
    revoke = what.add_parser("revoke", help="revoke a token; it takes effect within a second")
    revoke.add_argument("token", metavar="ID", help="id of the token from 'wattpack token list', or its name")
    for command in (add, rotate, what.add_parser("list", help="list tokens, without their secrets"), revoke):
        command.add_argument("--file", type=Path, help="token file (default: the setting access.tokens)")
        command.add_argument("--json", action="store_true", help="print JSON")
        add_config_options(command, "collector")


def run(arguments: argparse.Namespace) -> int:
    path = _path(arguments)
    match arguments.what:
        case "add":
            shown = _add(path, Scope(arguments.kind), arguments.name, arguments.days)
        case "rotate":
            shown = _rotate(path, arguments.token)
        case "revoke":
            shown = _revoke(path, arguments.token)
        case _:
            shown = [_public(token) for token in read_tokens(path) or []]
    print(msgspec.json.encode(shown).decode() if arguments.json else _table(shown, path))
    return 0


def _path(arguments: argparse.Namespace) -> Path:
    if arguments.file is not None:
        return Path(arguments.file)
    configured = load_config(CollectorConfig, "collector", arguments).access.tokens
    if not configured:
        raise UserError("access.tokens is empty, so the collector uses no tokens: set it, or give --file")
    return Path(configured)


Shown = dict[str, str | float | None]
"""A token without its hash."""


def _public(token: Token, secret: str | None = None) -> Shown:
    shown: Shown = {
        "id": token.id,
        "kind": token.kind.value,
        "name": token.name,
        "created_at": token.created_at,
        "expires_at": token.expires_at,
    }
    return shown | ({"secret": secret} if secret is not None else {})


def _add(path: Path, kind: Scope, name: str, days: float | None) -> list[Shown]:
    if not 0 < len(name) <= MAX_NAME_LENGTH:
        raise UserError(f"the name must have 1 to {MAX_NAME_LENGTH} characters")
    if days is not None and not 0 < days <= _MAX_DAYS:
        raise UserError(f"--days {days:g}: use a number above 0 and up to {_MAX_DAYS}")
    now = time.time()
    if kind is Scope.JOIN and days is None:
        days = _JOIN_DAYS
    token, secret = make_token(kind, name, now, None if days is None else now + days * _DAY_SECONDS)
    with edit_tokens(path) as tokens:
        tokens.append(token)
    return [_public(token, secret)]


def _rotate(path: Path, which: str) -> list[Shown]:
    with edit_tokens(path) as tokens:
        old = _find(tokens, which, path)
        token, secret = make_token(old.kind, old.name, time.time(), old.expires_at)
        token = msgspec.structs.replace(token, machine=old.machine, joined_with=old.joined_with)
        tokens[tokens.index(old)] = token
    return [_public(token, secret)]


def _revoke(path: Path, which: str) -> list[Shown]:
    with edit_tokens(path) as tokens:
        found = _find(tokens, which, path)
        tokens.remove(found)
    return [_public(found)]


def _find(tokens: Sequence[Token], which: str, path: Path) -> Token:
    found = [token for token in tokens if which in (token.id, token.name)]
    if not found:
        raise UserError(f"no token {which!r} in {path}: 'wattpack token list' shows all tokens")
    if len(found) > 1:
        ids = ", ".join(token.id for token in found)
        raise UserError(f"{len(found)} tokens have the name {which!r}: give one of the ids {ids}")
    return found[0]


def _table(shown: list[Shown], path: Path) -> str:
    if not shown:
        return f"No tokens in {path}."
    rows = [("ID", "KIND", "NAME", "CREATED", "EXPIRES")]
    rows += [
        (
            str(each["id"]),
            str(each["kind"]),
            str(each["name"]),
            _day(each["created_at"]),
            _day(each["expires_at"]),
        )
        for each in shown
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    secrets = [f"\n{each['secret']}" for each in shown if "secret" in each]
    return "\n".join(
        lines
        + secrets
        + ["Save this secret now: it is not stored and cannot be shown again."] * bool(secrets)
    )


def _day(at: object) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}" if isinstance(at, float) else "never"

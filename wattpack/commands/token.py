"""`wattpack token`: add, list, rotate and revoke tokens in the collector's token file."""

import argparse
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from collector.config import CollectorConfig
from collector.serve.web.scopes import Scope
from collector.serve.web.tokens import KINDS, Token, edit_tokens, make_token, read_tokens
from wattpack.commands import Functions
from wattpack.config.arguments import add
from wattpack.config.options import add_config_options, load_config
from wattpack.output.text import Columns, columns_table, print_result
from wire.errors import UserError
from wire.messages import MAX_NAME_LENGTH
from wire.text import printable

_DAY_SECONDS = 86_400
_MAX_DAYS = 36_500
_JOIN_DAYS = 1.0


def _add_file_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "--file FILE", "token file (default: the setting access.tokens)", Path)
    add(parser, "--json", "print JSON")
    add_config_options(parser, "collector")


def _add_new_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = (
        "node: send reports of one node; read: read everything; place: also reserve nodes, as"
        " kube-scheduler does; join: let hosts join with 'wattpack agent join'; admin: read and change"
        " everything"
    )
    add(parser, "|".join(kind.value for kind in KINDS), kinds, dest="kind")
    add(parser, "NAME", "of a node token: the node; of a join token: a pattern such as 'web*'; else a label")
    add(parser, "--days N", "expire after N days (default: never; a join token after one)", float)
    _add_file_arguments(parser)


def _add_token_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "ID", "id of the token from 'wattpack token list', or its name", dest="token")
    _add_file_arguments(parser)


def _add_revoke_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "--join-token", "also revoke the join token that the node joined with")
    _add_token_arguments(parser)


def _list_tokens(arguments: argparse.Namespace) -> int:
    return _show(arguments, read_tokens(_path(arguments)) or [])


def _add_token(arguments: argparse.Namespace) -> int:
    kind, name, days = Scope(arguments.kind), arguments.name, arguments.days
    if not 0 < len(name) <= MAX_NAME_LENGTH or not name.isprintable():
        raise UserError(
            f"the name must have 1 to {MAX_NAME_LENGTH} characters, none of them a control character"
        )
    if days is not None and not 0 < days <= _MAX_DAYS:
        raise UserError(f"--days {days:g}: use a number above 0 and up to {_MAX_DAYS}")
    now = time.time()
    if kind is Scope.JOIN and days is None:
        days = _JOIN_DAYS
    token, secret = make_token(kind, name, now, None if days is None else now + days * _DAY_SECONDS)
    with edit_tokens(_path(arguments)) as tokens:
        tokens.append(token)
    return _show(arguments, [token], secret)


def _rotate_token(arguments: argparse.Namespace) -> int:
    with edit_tokens(_path(arguments)) as tokens:
        old = _find(tokens, arguments)
        token, secret = make_token(old.kind, old.name, time.time(), old.expires_at)
        token = msgspec.structs.replace(token, machine=old.machine, joined_with=old.joined_with)
        tokens[tokens.index(old)] = token
    return _show(arguments, [token], secret)


def _revoke_token(arguments: argparse.Namespace) -> int:
    now = time.time()
    with edit_tokens(_path(arguments)) as tokens:
        token = _find(tokens, arguments)
        join = next((each for each in tokens if each.id == token.joined_with and each.is_valid(now)), None)
        tokens.remove(token)
        if token.kind is Scope.NODE:
            # Last in the file: an earlier join token does not give the name away.
            token = msgspec.structs.replace(token, revoked_at=now)
            tokens.append(token)
        if join is not None and arguments.join_token:
            tokens.remove(join)
    if join is None:
        return _show(arguments, [token])
    if arguments.join_token:
        return _show(arguments, [token, join])
    return _show(arguments, [token], more=_offer(token, join))


def _offer(token: Token, join: Token) -> Sequence[str]:
    """Advice after the revocation of a node that joined."""
    with_token = f"the join token {join.id} ({printable(join.name)})"
    return (
        "",
        f"{printable(token.name)} joined with {with_token}, which is still valid: anybody with it can join",
        f"under another name. End it too with: wattpack token revoke {join.id}",
    )


def _path(arguments: argparse.Namespace) -> Path:
    if arguments.file is not None:
        return Path(arguments.file)
    configured = load_config(CollectorConfig, "collector", arguments).access.tokens
    if not configured:
        raise UserError("access.tokens is empty, so the collector uses no tokens: set it, or give --file")
    return Path(configured)


def _find(tokens: Sequence[Token], arguments: argparse.Namespace) -> Token:
    """The token in use with an id or a name."""
    which = arguments.token
    found = [token for token in tokens if which in (token.id, token.name) and token.is_in_use]
    if not found:
        path = _path(arguments)
        raise UserError(f"no token {which!r} in {path}: 'wattpack token list' shows all tokens")
    if len(found) > 1:
        ids = ", ".join(token.id for token in found)
        raise UserError(f"{len(found)} tokens have the name {which!r}: give one of the ids {ids}")
    return found[0]


def _show(
    arguments: argparse.Namespace,
    tokens: Sequence[Token],
    secret: str | None = None,
    more: Sequence[str] = (),
) -> int:
    """Print tokens without their hashes, and the secret of a new one."""
    fields = ("id", "kind", "name", "created_at", "expires_at", "revoked_at", "joined_with")
    new = {} if secret is None else {"secret": secret}
    found = [{field: getattr(token, field) for field in fields} | new for token in tokens]
    lines = [*columns_table(_COLUMNS, tokens)] if tokens else [f"No tokens in {_path(arguments)}."]
    if secret is not None:
        lines += ["", secret, "Save this secret now: it is not stored and cannot be shown again."]
    return print_result(arguments, found, [*lines, *more])


def _end_text(token: Token) -> str:
    if token.sha256 is None:
        return "no token"
    return (
        _day_text(token.expires_at) if token.revoked_at is None else f"revoked {_day_text(token.revoked_at)}"
    )


def _day_text(at: float | None) -> str:
    return "never" if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"


_COLUMNS: Columns = {
    "ID": lambda token: token.id,
    "KIND": lambda token: token.kind.value,
    "NAME": lambda token: token.name,
    "CREATED": lambda token: _day_text(token.created_at),
    "EXPIRES": _end_text,
}
FUNCTIONS = {
    "token add": Functions(_add_new_arguments, _add_token),
    "token list": Functions(_add_file_arguments, _list_tokens),
    "token rotate": Functions(_add_token_arguments, _rotate_token),
    "token revoke": Functions(_add_revoke_arguments, _revoke_token),
}

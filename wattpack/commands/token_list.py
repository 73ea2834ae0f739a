"""`wattpack token list`: list tokens; and what all token commands share."""

import argparse
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from collector.config import CollectorConfig
from collector.serve.web.tokens import Token, read_tokens
from wattpack.config.arguments import add
from wattpack.config.options import add_config_options, load_config
from wattpack.output.table import table
from wire.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "--file FILE", "token file (default: the setting access.tokens)", Path)
    add(parser, "--json", "print JSON")
    add_config_options(parser, "collector")


def add_token_argument(parser: argparse.ArgumentParser) -> None:
    """The token to change."""
    add(parser, "ID", "id of the token from 'wattpack token list', or its name", dest="token")
    add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    return show_tokens(arguments, read_tokens(token_path(arguments)) or [])


def token_path(arguments: argparse.Namespace) -> Path:
    """The token file."""
    if arguments.file is not None:
        return Path(arguments.file)
    configured = load_config(CollectorConfig, "collector", arguments).access.tokens
    if not configured:
        raise UserError("access.tokens is empty, so the collector uses no tokens: set it, or give --file")
    return Path(configured)


def find_token(tokens: Sequence[Token], arguments: argparse.Namespace) -> Token:
    """The token with an id or a name."""
    which = arguments.token
    found = [token for token in tokens if which in (token.id, token.name)]
    if not found:
        path = token_path(arguments)
        raise UserError(f"no token {which!r} in {path}: 'wattpack token list' shows all tokens")
    if len(found) > 1:
        ids = ", ".join(token.id for token in found)
        raise UserError(f"{len(found)} tokens have the name {which!r}: give one of the ids {ids}")
    return found[0]


def show_tokens(arguments: argparse.Namespace, tokens: Sequence[Token], secret: str | None = None) -> int:
    """Print tokens without their hashes, and the secret of a new one."""
    if arguments.json:
        shown = [
            {
                "id": token.id,
                "kind": token.kind.value,
                "name": token.name,
                "created_at": token.created_at,
                "expires_at": token.expires_at,
            }
            | ({} if secret is None else {"secret": secret})
            for token in tokens
        ]
        print(msgspec.json.encode(shown).decode())
    elif tokens:
        rows = [tuple(_cells(token)) for token in tokens]
        print("\n".join(table(("ID", "KIND", "NAME", "CREATED", "EXPIRES"), rows)))
    else:
        print(f"No tokens in {token_path(arguments)}.")
    if secret is not None and not arguments.json:
        print(f"\n{secret}\nSave this secret now: it is not stored and cannot be shown again.")
    return 0


def _cells(token: Token) -> Iterator[str]:
    yield from (token.id, token.kind.value, token.name)
    for at in (token.created_at, token.expires_at):
        yield "never" if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"

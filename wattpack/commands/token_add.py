"""`wattpack token add`: create a token."""

import argparse
import time

from collector.serve.web.scopes import Scope
from collector.serve.web.tokens import KINDS, edit_tokens, make_token
from wattpack.commands import token_list
from wattpack.config.arguments import add
from wire.errors import UserError
from wire.messages import MAX_NAME_LENGTH

_DAY_SECONDS = 86_400
_MAX_DAYS = 36_500
_JOIN_DAYS = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = (
        "node: send reports of one node; read: read everything; place: also reserve nodes, as"
        " kube-scheduler does; join: let hosts join with 'wattpack agent join'; admin: read and change"
        " everything"
    )
    add(parser, "|".join(kind.value for kind in KINDS), kinds, dest="kind")
    add(parser, "NAME", "of a node token: the node; of a join token: a pattern such as 'web*'; else a label")
    add(parser, "--days N", "expire after N days (default: never; a join token after one)", float)
    token_list.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    kind, name, days = Scope(arguments.kind), arguments.name, arguments.days
    if not 0 < len(name) <= MAX_NAME_LENGTH:
        raise UserError(f"the name must have 1 to {MAX_NAME_LENGTH} characters")
    if days is not None and not 0 < days <= _MAX_DAYS:
        raise UserError(f"--days {days:g}: use a number above 0 and up to {_MAX_DAYS}")
    now = time.time()
    if kind is Scope.JOIN and days is None:
        days = _JOIN_DAYS
    token, secret = make_token(kind, name, now, None if days is None else now + days * _DAY_SECONDS)
    with edit_tokens(token_list.token_path(arguments)) as tokens:
        tokens.append(token)
    return token_list.show_tokens(arguments, [token], secret)

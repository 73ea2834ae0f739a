"""`wattpack token rotate`: replace the secret of a token."""

import argparse
import time

import msgspec

from collector.serve.web.tokens import edit_tokens, make_token
from wattpack.commands.token_list import add_token_argument, find_token, show_tokens, token_path

add_arguments = add_token_argument


def run(arguments: argparse.Namespace) -> int:
    with edit_tokens(token_path(arguments)) as tokens:
        old = find_token(tokens, arguments)
        token, secret = make_token(old.kind, old.name, time.time(), old.expires_at)
        token = msgspec.structs.replace(token, machine=old.machine, joined_with=old.joined_with)
        tokens[tokens.index(old)] = token
    return show_tokens(arguments, [token], secret)

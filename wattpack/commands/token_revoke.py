"""`wattpack token revoke`: revoke a token."""

import argparse

from collector.serve.web.tokens import edit_tokens
from wattpack.commands.token_list import add_token_argument, find_token, show_tokens, token_path

add_arguments = add_token_argument


def run(arguments: argparse.Namespace) -> int:
    with edit_tokens(token_path(arguments)) as tokens:
        token = find_token(tokens, arguments)
        tokens.remove(token)
    return show_tokens(arguments, [token])

"""How a command asks a collector: with the token and the authority that the environment names."""

import os
import ssl
from collections.abc import Mapping
from http import HTTPStatus

import aiohttp

from wire.complaint import Complaint

TOKEN_VARIABLE = "WATTPACK_TOKEN"  # noqa: S105 - the name of one, not one
CA_VARIABLE = "WATTPACK_CA_FILE"


def asking(
    timeout: aiohttp.ClientTimeout, environment: Mapping[str, str] = os.environ
) -> aiohttp.ClientSession:
    """A session that shows the user's token, and trusts the collector's authority."""
    token = environment.get(TOKEN_VARIABLE, "").strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise Complaint(f"{TOKEN_VARIABLE} holds no token: set it to what wattpack token add read NAME shows")
    authority = environment.get(CA_VARIABLE, "")
    try:
        trusted: ssl.SSLContext | bool = ssl.create_default_context(cafile=authority) if authority else True
    except OSError as error:
        why = "not in PEM" if isinstance(error, ssl.SSLError) else (error.strerror or str(error)).lower()
        raise Complaint(
            f"cannot read certificates from {authority} ({why}), as {CA_VARIABLE} says: check it"
        ) from error
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=trusted),
        headers={"Authorization": f"Bearer {token}"} if token else {},
        timeout=timeout,
    )


def about(status: int) -> str:
    """What to do about an answer, where the token is to blame; nothing where it is not."""
    match status:
        case HTTPStatus.UNAUTHORIZED:
            return f" (set {TOKEN_VARIABLE} to a token that is valid there)"
        case HTTPStatus.FORBIDDEN:
            return f" (the token in {TOKEN_VARIABLE} is not for this)"
        case _:
            return ""

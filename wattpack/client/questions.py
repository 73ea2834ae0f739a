"""How a command asks a collector: with the token and the authority that the environment names."""

import os
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from typing import TypeVar

import aiohttp
import msgspec

from wire.address import COLLECTOR_DEFAULT
from wire.errors import Problem, UserError

Answer = TypeVar("Answer")
_PATIENCE = aiohttp.ClientTimeout(total=60)
_JSON = {"Content-Type": "application/json"}

TOKEN_VARIABLE = "WATTPACK_TOKEN"  # noqa: S105 - the name of one, not one
CA_VARIABLE = "WATTPACK_CA_FILE"


def asking(
    timeout: aiohttp.ClientTimeout, environment: Mapping[str, str] = os.environ
) -> aiohttp.ClientSession:
    """A session that shows the user's token, and trusts the collector's authority."""
    token = environment.get(TOKEN_VARIABLE, "").strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise UserError(f"{TOKEN_VARIABLE} holds no token: set it to what wattpack token add read NAME shows")
    authority = environment.get(CA_VARIABLE, "")
    try:
        trusted: ssl.SSLContext | bool = ssl.create_default_context(cafile=authority) if authority else True
    except OSError as error:
        why = "not in PEM" if isinstance(error, ssl.SSLError) else (error.strerror or str(error)).lower()
        raise UserError(
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


def collector_url(given: str | None) -> str:
    """Where the collector is: as given, or on this host."""
    url = given or f"http://{COLLECTOR_DEFAULT}"
    if not url.startswith(("http://", "https://")):
        raise UserError(f"--collector {url}: write an address such as http://{COLLECTOR_DEFAULT}")
    return url.rstrip("/")


async def put_question(url: str, path: str, question: object, shape: type[Answer]) -> Answer:
    """Ask the collector one thing; raises `UserError` with what it says, or that it says nothing."""
    async with asking(_PATIENCE) as session:
        try:
            async with session.post(url + path, data=msgspec.json.encode(question), headers=_JSON) as answer:
                body = await answer.read()
        except TimeoutError:
            raise UserError(f"the collector at {url} does not answer in time: is it overrun?") from None
        except (aiohttp.ClientError, ValueError) as error:
            raise UserError(
                f"the collector at {url} does not answer ({error}): is it running, and is this its address?"
            ) from None
    try:
        if answer.status != HTTPStatus.OK:
            said = msgspec.json.decode(body, type=Problem).detail
            raise UserError(f"the collector says no: {said}{about(answer.status)}")
        return msgspec.json.decode(body, type=shape)
    except msgspec.MsgspecError:
        raise UserError(
            f"what answers {answer.status} at {url} is no collector of this version: check the address"
        ) from None

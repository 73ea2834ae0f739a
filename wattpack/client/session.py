"""HTTP sessions with a collector, with the token and the CA certificate from the environment."""

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
_TIMEOUT = aiohttp.ClientTimeout(total=60)
_JSON = {"Content-Type": "application/json"}

TOKEN_VARIABLE = "WATTPACK_TOKEN"  # noqa: S105 - the name of one, not one
CA_VARIABLE = "WATTPACK_CA_FILE"


def open_session(
    timeout: aiohttp.ClientTimeout, environment: Mapping[str, str] = os.environ
) -> aiohttp.ClientSession:
    """A session that sends the user's token and trusts the collector's CA."""
    token = environment.get(TOKEN_VARIABLE, "").strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise UserError(
            f"{TOKEN_VARIABLE} is not a token: set it to the secret from 'wattpack token add read NAME'"
        )
    ca_file = environment.get(CA_VARIABLE, "")
    try:
        trusted: ssl.SSLContext | bool = ssl.create_default_context(cafile=ca_file) if ca_file else True
    except OSError as error:
        reason = "not PEM" if isinstance(error, ssl.SSLError) else (error.strerror or str(error)).lower()
        raise UserError(
            f"cannot read certificates from {ca_file} ({reason}): check --ca-file or {CA_VARIABLE}"
        ) from error
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=trusted),
        headers={"Authorization": f"Bearer {token}"} if token else {},
        timeout=timeout,
    )


def token_hint(status: int) -> str:
    """A hint for an answer that is about the token; empty for any other."""
    match status:
        case HTTPStatus.UNAUTHORIZED:
            return f" (set {TOKEN_VARIABLE} to a valid token)"
        case HTTPStatus.FORBIDDEN:
            return f" (the token in {TOKEN_VARIABLE} is of the wrong kind)"
        case _:
            return ""


def collector_url(given: str | None) -> str:
    """The address of the collector: as given, or on this host."""
    url = given or f"http://{COLLECTOR_DEFAULT}"
    if not url.startswith(("http://", "https://")):
        raise UserError(f"--collector {url}: use a URL such as http://{COLLECTOR_DEFAULT}")
    return url.rstrip("/")


async def post_question(url: str, path: str, question: object, shape: type[Answer]) -> Answer:
    """Post a question to the collector; raises `UserError` if it rejects it or does not answer."""
    async with open_session(_TIMEOUT) as session:
        try:
            async with session.post(url + path, data=msgspec.json.encode(question), headers=_JSON) as answer:
                body = await answer.read()
        except TimeoutError:
            raise UserError(
                f"the collector at {url} does not answer in time: check its load and log"
            ) from None
        except (aiohttp.ClientError, ValueError) as error:
            raise UserError(
                f"the collector at {url} does not answer ({error}): check that it is running and that"
                " --collector is right"
            ) from None
    try:
        if answer.status != HTTPStatus.OK:
            detail = msgspec.json.decode(body, type=Problem).detail
            raise UserError(f"the collector rejects the request: {detail}{token_hint(answer.status)}")
        return msgspec.json.decode(body, type=shape)
    except msgspec.MsgspecError:
        raise UserError(
            f"the server at {url} is not a collector of this version (status {answer.status}): check"
            " --collector"
        ) from None

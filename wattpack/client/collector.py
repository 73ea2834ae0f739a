"""Lists from a collector, page by page, and the options that commands share."""

import argparse
import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import msgspec

from wattpack.client.session import CA_VARIABLE, TOKEN_VARIABLE, collector_url, open_session, token_hint
from wire.address import COLLECTOR_DEFAULT
from wire.errors import Problem, UserError

Found = TypeVar("Found")
Json = dict[str, Any]
_TIMEOUT = aiohttp.ClientTimeout(total=30)
_PAGE = 1000


class NoAnswerError(Exception):
    """There is no answer, or no valid one; the text is the predicate of a sentence."""


def no_answer(url: str, error: NoAnswerError) -> UserError:
    """The error for the user."""
    return UserError(
        f"the collector at {url} {error}: check that it is running and that --collector is right"
    )


@dataclass(frozen=True, slots=True)
class Collector:
    """A connection to a collector. Answers are not validated: it may be newer than this command."""

    session: aiohttp.ClientSession
    url: str

    async def get(self, path: str, **parameters: str | None) -> Json:
        """Get one answer; raises `NoAnswerError`, or `UserError` for a request that the collector rejects."""
        given = {name: value for name, value in parameters.items() if value is not None}
        return await self._request("GET", path, params=given)

    async def post(self, path: str, question: Json) -> Json:
        """Post a question that changes nothing; raises as `get` does. Null fields are left out."""
        given = {name: value for name, value in question.items() if value is not None}
        return await self._request("POST", path, json=given)

    async def _request(self, method: str, path: str, **content: Any) -> Json:  # noqa: ANN401 - aiohttp's
        try:
            async with self.session.request(method, self.url + path, **content) as answer:
                body = await answer.read()
        except TimeoutError:
            raise NoAnswerError("does not answer in time") from None
        except (aiohttp.ClientError, ValueError) as error:
            raise NoAnswerError(f"does not answer ({error})") from None
        if answer.status in (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND):
            raise UserError(_detail(body) or f"the collector at {self.url} has no {path}: check its version")
        if answer.status != HTTPStatus.OK:
            raise NoAnswerError(f"answers {answer.status} to {path}{token_hint(answer.status)}")
        try:
            return msgspec.json.decode(body, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise NoAnswerError(f"sends an invalid answer to {path} ({error})") from None

    async def get_all(self, path: str, *, key: str = "", **parameters: str | None) -> list[Json]:
        """Get all pages of a list; `key` names it in the answer (default: the end of the path)."""
        found: list[Json] = []
        cursor: str | None = None
        while True:
            page = await self.get(path, limit=str(_PAGE), cursor=cursor, **parameters)
            found += page[key or path.rpartition("/")[2]]
            cursor = page.get("next")
            if cursor is None:
                return found


def _detail(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=Problem).detail
    except msgspec.MsgspecError:
        return ""


def add_collector_options(parser: argparse.ArgumentParser) -> None:
    """`--collector`, `--token-file`, `--ca-file` and `--json`."""
    parser.add_argument(
        "--collector",
        metavar="URL",
        help=f"address of the collector (default: http://{COLLECTOR_DEFAULT})",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help=f"file with the token (default: the environment variable {TOKEN_VARIABLE})",
    )
    parser.add_argument(
        "--ca-file",
        metavar="FILE",
        help=f"CA certificate of the collector (default: the environment variable {CA_VARIABLE})",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def query_collector(arguments: argparse.Namespace, query: Callable[[Collector], Awaitable[Found]]) -> Found:
    """Run `query` on the collector; raises `UserError` if it does not answer."""
    url = collector_url(arguments.collector)

    async def run() -> Found:
        async with open_session(_TIMEOUT, _environment(arguments)) as session:
            return await query(Collector(session, url))

    try:
        return asyncio.run(run())
    except NoAnswerError as error:
        raise no_answer(url, error) from None


def _environment(arguments: argparse.Namespace) -> Mapping[str, str]:
    environment = dict(os.environ)
    if arguments.ca_file is not None:
        environment[CA_VARIABLE] = arguments.ca_file
    if arguments.token_file is not None:
        try:
            environment[TOKEN_VARIABLE] = arguments.token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeError) as error:
            raise UserError(f"cannot read the token file {arguments.token_file}: {error}") from error
    return environment


def json_text(found: object) -> str:
    """Indented JSON."""
    return msgspec.json.format(msgspec.json.encode(found)).decode()


def moment(at: float | None) -> str:
    """`2026-05-01 12:00:00`, or `-` if unknown."""
    return "-" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def seconds_text(seconds: float) -> str:
    """`40 s`, `12 min`, `3 h`, `2 d`."""
    for unit, size in (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def number_text(number: float | None, unit: str = "", digits: int = 2) -> str:
    """`1.25 W`, or `-` if unknown."""
    return "-" if number is None else f"{number:.{digits}f}{unit}"


def percent_text(ratio: float | None) -> str:
    """`45 %`, or `-` if unknown."""
    return "-" if ratio is None else f"{ratio:.0%}".replace("%", " %")

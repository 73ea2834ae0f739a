"""How commands ask a collector for lists: page by page, with the options that all of them share."""

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

from wattpack.client.questions import CA_VARIABLE, TOKEN_VARIABLE, about, asking, collector_url
from wire.address import COLLECTOR_DEFAULT
from wire.errors import Problem, UserError

Found = TypeVar("Found")
Json = dict[str, Any]
_PATIENCE = aiohttp.ClientTimeout(total=30)
_PAGE = 1000


class NoAnswerError(Exception):
    """The collector gave none, or one that cannot be used; the text says which."""


def unanswered(url: str, error: NoAnswerError) -> UserError:
    """What to tell who asked."""
    return UserError(f"the collector at {url} {error}: is it running, and is this its address?")


@dataclass(frozen=True, slots=True)
class Collector:
    """A collector, and a way to it. Its answers are read as they come: it may be newer than this command."""

    session: aiohttp.ClientSession
    url: str

    async def ask(self, path: str, **parameters: str | None) -> Json:
        """One answer; raises `NoAnswerError`, and `UserError` for what the collector refuses."""
        given = {name: value for name, value in parameters.items() if value is not None}
        try:
            async with self.session.get(self.url + path, params=given) as answer:
                body = await answer.read()
        except TimeoutError:
            raise NoAnswerError("does not answer in time") from None
        except (aiohttp.ClientError, ValueError) as error:
            raise NoAnswerError(f"does not answer ({error})") from None
        if answer.status in (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND):
            raise UserError(_detail(body) or f"the collector at {self.url} knows nothing of {path}")
        if answer.status != HTTPStatus.OK:
            raise NoAnswerError(f"answers {answer.status} to {path}{about(answer.status)}")
        try:
            return msgspec.json.decode(body, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise NoAnswerError(f"answers something else to {path} ({error})") from None

    async def ask_all(self, path: str, *, key: str = "", **parameters: str | None) -> list[Json]:
        """A whole list, which is called `key` in the answer, or as the path ends."""
        found: list[Json] = []
        cursor: str | None = None
        while True:
            page = await self.ask(path, limit=str(_PAGE), cursor=cursor, **parameters)
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
        help=f"which collector to ask (default: http://{COLLECTOR_DEFAULT})",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help=f"a file with the token to show (default: the variable {TOKEN_VARIABLE}, if it is set)",
    )
    parser.add_argument(
        "--ca-file",
        metavar="FILE",
        help=f"whom to trust about the collector's certificate (default: the variable {CA_VARIABLE})",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def from_collector(arguments: argparse.Namespace, ask: Callable[[Collector], Awaitable[Found]]) -> Found:
    """What a collector answers to `ask`; raises `UserError` where it does not."""
    url = collector_url(arguments.collector)

    async def asked() -> Found:
        async with asking(_PATIENCE, _environment(arguments)) as session:
            return await ask(Collector(session, url))

    try:
        return asyncio.run(asked())
    except NoAnswerError as error:
        raise unanswered(url, error) from None


def _environment(arguments: argparse.Namespace) -> Mapping[str, str]:
    environment = dict(os.environ)
    if arguments.ca_file is not None:
        environment[CA_VARIABLE] = arguments.ca_file
    if arguments.token_file is not None:
        try:
            environment[TOKEN_VARIABLE] = arguments.token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeError) as error:
            raise UserError(f"cannot read a token from {arguments.token_file}: {error}") from error
    return environment


def json_text(found: object) -> str:
    """For programs, and for people who look at it."""
    return msgspec.json.format(msgspec.json.encode(found)).decode()


def moment(at: float | None) -> str:
    """A time, as people read it."""
    return "-" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def seconds_text(seconds: float) -> str:
    """`40 s`, `12 min`, `3 h`, `2 d`."""
    for unit, size in (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def number_text(number: float | None, unit: str = "", digits: int = 2) -> str:
    """`1.25 W`, or `-` where it is not known."""
    return "-" if number is None else f"{number:.{digits}f}{unit}"


def percent_text(ratio: float | None) -> str:
    """`45 %`, or `-` where it is not known."""
    return "-" if ratio is None else f"{ratio:.0%}".replace("%", " %")

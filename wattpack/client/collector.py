"""Requests to a collector, the options that commands share, and lists for people and scripts."""

import argparse
import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import msgspec
from aiohttp import hdrs

from wattpack.client.session import (
    CA_VARIABLE,
    TOKEN_VARIABLE,
    URL_VARIABLE,
    NotFoundError,
    UnavailableError,
    collector_url,
    explain_failure,
    explain_status,
    explain_unavailable,
    open_session,
)
from wattpack.config.options import add, count
from wattpack.output.text import Columns, columns_table, print_result
from wire.address import COLLECTOR_DEFAULT
from wire.errors import UserError, os_reason

Found = TypeVar("Found")
Json = dict[str, Any]
TIMEOUT_SECONDS = 60.0
_JSON_HEADERS = {"Content-Type": "application/json"}
_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Collector:
    """A connection to a collector. Responses are not validated: it may be newer than this command."""

    session: aiohttp.ClientSession
    url: str

    async def get(self, path: str, **parameters: str | None) -> Json:
        """Get one response; raises `UnavailableError`, or `UserError` if the request is rejected."""
        return await self._request("GET", path, params=_given(parameters))

    async def get_optional(self, path: str, default: Json) -> Json:
        """Get one response of a feature that the collector may not have."""
        try:
            return await self.get(path)
        except NotFoundError:
            return default

    async def get_text(self, path: str, **parameters: str | None) -> str:
        """Get a response that is not JSON; raises as `get` does."""
        return (await self._read("GET", path, params=_given(parameters))).decode("utf-8", "replace")

    async def post(self, path: str, body: object, shape: type[Found]) -> Found:
        """Post a body as JSON; returns the response in its shape. Raises as `get` does."""
        content = {"data": msgspec.json.encode(body), "headers": _JSON_HEADERS}
        try:
            return msgspec.convert(await self._request("POST", path, **content), shape)
        except msgspec.ValidationError as error:
            raise UserError(
                f"the collector at {self.url} is not of this version ({error}): use the same version"
            ) from None

    async def _request(self, method: str, path: str, **content: Any) -> Json:  # noqa: ANN401 - aiohttp's
        body = await self._read(method, path, **content)
        try:
            return msgspec.json.decode(body, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise UnavailableError(f"sends an invalid response to {path} ({error})") from None

    async def _read(self, method: str, path: str, **content: Any) -> bytes:  # noqa: ANN401 - aiohttp's
        try:
            async with self.session.request(method, self.url + path, **content) as response:
                body = await response.read()
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise explain_failure(self.url, error) from None
        if response.status != HTTPStatus.OK:
            with_token = hdrs.AUTHORIZATION in self.session.headers
            raise explain_status(self.url, path, response.status, body, with_token=with_token)
        return body

    async def get_all(self, path: str, *, key: str | None = None, **parameters: str | None) -> list[Json]:
        """Get all pages of a list; `key` names it in the response (default: the end of the path)."""
        found: list[Json] = []
        cursor: str | None = None
        while True:
            page = await self.get(path, limit=str(_PAGE), cursor=cursor, **parameters)
            found += page[key or path.rpartition("/")[2]]
            cursor = page.get("next")
            if cursor is None:
                return found


def _given(parameters: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value is not None}


def add_collector_options(parser: argparse.ArgumentParser) -> None:
    """`--collector`, `--token-file`, `--ca-file` and `--json`."""
    add_access_options(parser)
    add(parser, "--json", "print JSON")


def add_list_options(parser: argparse.ArgumentParser, default_limit: int | None = None) -> None:
    """The options of `add_collector_options`, and `--limit`."""
    limit = "show at most N" if default_limit else "show at most N (default: all)"
    add(parser, "--limit N", limit, count, default=default_limit)
    add_collector_options(parser)


def add_access_options(
    parser: argparse.ArgumentParser,
    collector_help: str = f"address of the collector (default: {URL_VARIABLE}, or http://{COLLECTOR_DEFAULT})",
) -> None:
    """`--collector`, `--token-file` and `--ca-file`."""
    add(parser, "--collector URL", collector_help)
    add(parser, "--token-file FILE", f"file with the token (default: {TOKEN_VARIABLE})", Path)
    add(parser, "--ca-file FILE", f"CA certificate of the collector (default: {CA_VARIABLE})")


def query_collector(
    arguments: argparse.Namespace,
    query: Callable[[Collector], Awaitable[Found]],
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> Found:
    """Run `query` on the collector; raises `UserError` if it does not answer."""
    url = collector_url(arguments.collector)
    timeout = aiohttp.ClientTimeout(total=timeout_seconds)

    async def run() -> Found:
        async with open_session(timeout, access_environment(arguments)) as session:
            return await query(Collector(session, url))

    try:
        return asyncio.run(run())
    except UnavailableError as error:
        raise explain_unavailable(url, error) from None


def get(arguments: argparse.Namespace, path: str, **parameters: str | None) -> Json:
    """`Collector.get`, as the only request of a command."""
    return query_collector(arguments, lambda collector: collector.get(path, **parameters))


def get_all(arguments: argparse.Namespace, path: str, **parameters: str | None) -> list[Json]:
    """`Collector.get_all`, as the only request of a command."""
    return query_collector(arguments, lambda collector: collector.get_all(path, **parameters))


def post(
    arguments: argparse.Namespace,
    path: str,
    body: object,
    shape: type[Found],
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> Found:
    """`Collector.post`, as the only request of a command."""
    return query_collector(arguments, lambda collector: collector.post(path, body, shape), timeout_seconds)


def access_environment(arguments: argparse.Namespace) -> Mapping[str, str]:
    """The environment, with the token and the CA certificate of the options."""
    environment = dict(os.environ)
    if arguments.ca_file is not None:
        environment[CA_VARIABLE] = arguments.ca_file
    if arguments.token_file is not None:
        try:
            environment[TOKEN_VARIABLE] = arguments.token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeError) as error:
            reason = os_reason(error) if isinstance(error, OSError) else "not UTF-8 text"
            raise UserError(
                f"cannot read the token file {arguments.token_file} ({reason}): check its path"
            ) from error
    return environment


def print_list(
    arguments: argparse.Namespace, found: list[Json], columns: Columns, empty: str, note: str = ""
) -> int:
    """Print entries as JSON or as a table; `empty` if there are none. Returns the exit status."""
    shown = found[: arguments.limit]
    lines = (*columns_table(columns, shown), *more_lines(found, shown), *filter(None, (note,)))
    return print_result(arguments, shown, lines if shown else (empty,))


def more_lines(found: Sequence[object], shown: Sequence[object]) -> Iterator[str]:
    """The number of entries that the limit leaves out."""
    if len(shown) < len(found):
        yield f"... and {len(found) - len(shown)} more"

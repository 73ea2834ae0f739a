"""Joining: with a join token, a machine registers a token of its own node."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from fnmatch import fnmatchcase
from http import HTTPStatus
from pathlib import Path

import msgspec

from collector.common.errors import ApiError
from collector.common.periodic import in_background, repeat
from collector.runtime.parts import Core
from collector.serve.web.identities import JoinRequest, enrol, note_names
from collector.serve.web.routes import Route, post, problem
from collector.serve.web.scopes import Caller, Scope
from collector.serve.web.tokens import TokenFile, edit_tokens

log = logging.getLogger(__name__)
_NOTE_SECONDS = 60.0
"""Far below the time after which a node that is down is forgotten."""


class Joined(msgspec.Struct, frozen=True):
    """A node that may report now."""

    node: str


async def join(core: Core, wanted: JoinRequest, caller: Caller) -> Joined:
    """Register a token of one node by a join token. `wattpack agent join` uses this route."""
    settings = core.config.access
    if not wanted.node.isprintable():
        raise ApiError(HTTPStatus.BAD_REQUEST, "the name has a control character: choose another", "$.node")
    if caller.joins is not None and not fnmatchcase(wanted.node, caller.joins):
        raise ApiError(
            HTTPStatus.FORBIDDEN,
            f"this join token is for nodes {caller.joins}, not for {wanted.node}: choose a name with --node",
            "$.node",
        )
    if not caller.token:
        raise ApiError(
            HTTPStatus.CONFLICT,
            "this collector uses no tokens, so there is nothing to join: start the agent with collector.url",
        )
    now, path = core.clock(), Path(settings.tokens)

    def edit(machines: Mapping[str, str | None]) -> None:
        with edit_tokens(path) as tokens:
            note_names(tokens, machines, now)
        with edit_tokens(path) as tokens:
            enrol(tokens, wanted, caller.token, settings.max_joins, now)

    await asyncio.to_thread(edit, core.registry.machines())
    log.info("node %r has joined", wanted.node)
    return Joined(wanted.node)


def remembering_names(core: Core, tokens: TokenFile | None) -> AbstractAsyncContextManager[None]:
    """Record the names of nodes that have no token while the block runs, so that no host can join as one."""
    if tokens is None:
        return nullcontext()
    noted: set[str] = set()

    async def note() -> None:
        machines = core.registry.machines()
        if machines.keys() <= noted:
            return

        def edit() -> None:
            with edit_tokens(Path(core.config.access.tokens)) as listed:
                note_names(listed, machines, core.clock())

        await asyncio.to_thread(edit)
        noted.update(machines)

    return in_background(repeat(note, _NOTE_SECONDS, "recording the names of nodes"))


ROUTES: tuple[Route, ...] = (
    post(
        "/v1/join",
        join,
        problems=problem(
            HTTPStatus.CONFLICT,
            "Another machine has this name, it was revoked, or the collector uses no tokens.",
        ),
        scope=Scope.JOIN,
    ),
)

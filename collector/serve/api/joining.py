"""Joining: a machine exchanges a join token for a token of its own node."""

import asyncio
import logging
from fnmatch import fnmatchcase
from http import HTTPStatus
from pathlib import Path

import msgspec

from collector.common.errors import ApiError
from collector.runtime.parts import Core
from collector.serve.web.routes import Route, post, problem
from collector.serve.web.scopes import Caller, Scope
from collector.serve.web.tokens import edit_tokens, make_token
from wire.messages import Name

log = logging.getLogger(__name__)


class JoinRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A machine that joins the cluster as a node."""

    node: Name
    machine: Name
    """Hash of the machine's id, as in its heartbeats."""


class Joined(msgspec.Struct, frozen=True):
    """The credential of a node."""

    node: str
    token: str
    """Secret of the node's token. It is shown only here."""


async def join(core: Core, wanted: JoinRequest, caller: Caller) -> Joined:
    """Exchange a join token for a token of one node. `wattpack agent join` uses this route."""
    settings = core.config.access
    if caller.joins is not None and not fnmatchcase(wanted.node, caller.joins):
        raise ApiError(
            HTTPStatus.FORBIDDEN,
            f"this join token is for nodes {caller.joins}, not for {wanted.node}: choose a name with --node",
            "$.node",
        )
    if core.registry.is_taken(wanted.node, wanted.machine, core.clock()):
        # That machine may report with a certificate, or through a Prometheus.
        raise _taken(wanted.node)
    if not caller.token:
        raise ApiError(
            HTTPStatus.CONFLICT,
            "this collector uses no tokens, so there is nothing to join: start the agent with collector.url",
        )
    secret = await asyncio.to_thread(
        _enrol, Path(settings.tokens), wanted, caller.token, settings.max_joins, core.clock()
    )
    log.info("node %r has joined", wanted.node)
    return Joined(wanted.node, secret)


def _enrol(path: Path, wanted: JoinRequest, joined_with: str, max_joins: int, now: float) -> str:
    """Replace the node's token if this machine has it; raises `ApiError` if another machine does."""
    with edit_tokens(path) as tokens:
        own = [
            each
            for each in tokens
            if each.kind is Scope.NODE and each.name == wanted.node and each.is_valid(now)
        ]
        if any(each.machine != wanted.machine for each in own):
            raise _taken(wanted.node)
        if not own and sum(each.joined_with == joined_with for each in tokens) >= max_joins:
            raise ApiError(
                HTTPStatus.FORBIDDEN,
                f"{max_joins} nodes have joined with this token, as many as access.max_joins allows: create"
                " another one on the collector's host with: wattpack token add join",
                "Authorization",
            )
        for each in own:
            tokens.remove(each)
        token, secret = make_token(Scope.NODE, wanted.node, now)
        tokens.append(msgspec.structs.replace(token, machine=wanted.machine, joined_with=joined_with))
    return secret


def _taken(node: str) -> ApiError:
    return ApiError(
        HTTPStatus.CONFLICT,
        f"node {node} belongs to another machine: choose another name with --node, or revoke its token on the"
        f" collector's host with: wattpack token revoke {node}",
        "$.node",
    )


ROUTES: tuple[Route, ...] = (
    post(
        "/v1/join",
        join,
        problems=problem(
            HTTPStatus.CONFLICT, "Another machine has this name, or the collector uses no tokens."
        ),
        scope=Scope.JOIN,
    ),
)

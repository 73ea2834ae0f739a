"""Who a node is: its name belongs for good to the machine and the key that joined with it first.

The token file is the record. A token of a node stays in it when it expires or is revoked, and a node that
reports without one, with a certificate or through a Prometheus, has a line as well. So a name is not free
because its node is down, forgotten or revoked. Only the operator gives it away: with a join token for exactly
this name that is newer than the record. Newer is what comes later in the file, so that no clock counts.
"""

from collections.abc import Mapping
from http import HTTPStatus

import msgspec

from collector.common.errors import ApiError
from collector.serve.web.scopes import Scope
from collector.serve.web.tokens import SecretHash, Token, new_id
from wire.messages import Name


class JoinRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A machine that joins the cluster as a node, with a token that it made itself."""

    node: Name
    machine: Name
    """Hash of the machine's id, as in its heartbeats."""
    sha256: SecretHash
    """SHA-256 of the token. The same request again changes nothing."""


def note_names(tokens: list[Token], machines: Mapping[str, str | None], now: float) -> None:
    """Add a line for each node that has none, with the machine that it reported."""
    known = {each.name for each in tokens if each.kind is Scope.NODE}
    # First in the file: any join token for exactly this name is newer.
    tokens[:0] = [
        Token(id=new_id(), kind=Scope.NODE, name=name, created_at=now, machine=machine)
        for name, machine in machines.items()
        if name not in known
    ]


def enrol(tokens: list[Token], wanted: JoinRequest, join_id: str, max_joins: int, now: float) -> None:
    """Add the token of a node that joins; raises `ApiError` if the name or the machine may not join."""
    join = next((each for each in tokens if each.id == join_id and each.is_valid(now)), None)
    if join is None:
        raise ApiError(HTTPStatus.FORBIDDEN, "this join token was revoked", "Authorization")
    nodes = [each for each in tokens if each.kind is Scope.NODE]
    own = [each for each in nodes if each.name == wanted.node]
    if any(
        each.is_valid(now) and (each.machine, each.sha256) == (wanted.machine, wanted.sha256) for each in own
    ):
        return  # it has joined, and the answer was lost
    if any(each.sha256 == wanted.sha256 for each in tokens):
        raise ApiError(HTTPStatus.CONFLICT, "this token is in use already: make another one", "$.sha256")
    revoked = [each for each in nodes if each.revoked_at and wanted.machine == each.machine]
    if not _gives_away(join, wanted.node, tokens, own + revoked):
        _check_free(wanted, own, revoked)
    if not own and sum(each.joined_with == join.id for each in tokens) >= max_joins:
        raise ApiError(
            HTTPStatus.FORBIDDEN,
            f"{max_joins} nodes have joined with this token, as many as access.max_joins allows: create"
            " another one on the collector's host with: wattpack token add join",
            "Authorization",
        )
    for each in own:
        tokens.remove(each)
    tokens.append(
        Token(
            id=new_id(),
            kind=Scope.NODE,
            name=wanted.node,
            sha256=wanted.sha256,
            created_at=now,
            machine=wanted.machine,
            joined_with=join.id,
        )
    )


def _gives_away(join: Token, node: str, tokens: list[Token], records: list[Token]) -> bool:
    """Whether the operator made a join token for exactly this name after all that is recorded."""
    if join.kind is not Scope.JOIN or join.name != node:
        return False
    return tokens.index(join) > max((tokens.index(each) for each in records), default=-1)


def _check_free(wanted: JoinRequest, own: list[Token], revoked: list[Token]) -> None:
    """Raise `ApiError` unless the name is free, or only waits for the key of this machine."""
    advice = f"on the collector's host, let it join with: wattpack token add join {wanted.node}"
    if revoked or any(each.revoked_at for each in own):
        raise ApiError(
            HTTPStatus.CONFLICT, f"the token of this node or machine was revoked: {advice}", "$.node"
        )
    if any(each.sha256 or each.machine != wanted.machine for each in own):
        raise ApiError(
            HTTPStatus.CONFLICT,
            f"node {wanted.node} belongs to another machine, or to another token of this one: choose another"
            f" name with --node, or, {advice}",
            "$.node",
        )

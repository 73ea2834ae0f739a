"""The exchange with agents of the mesh: results in, peers and keys out."""

import ipaddress
from http import HTTPStatus

import msgspec
from aiohttp import hdrs, web

from collector.common.errors import ApiError
from collector.features.network.mesh.mesh import Mesh
from collector.runtime.parts import Core
from collector.serve.web.backpressure import BACKPRESSURE
from collector.serve.web.bodies import COUNT_BYTES
from collector.serve.web.routes import (
    BAD_BODY,
    FORBIDDEN,
    ResponseSpec,
    Route,
    json_response,
    problem,
    read_json,
)
from collector.serve.web.scopes import CALLER, Caller, Scope
from wire.mesh import MeshAssignment, MeshMember, MeshReport

_RETRY_SECONDS = 30
_BROADCAST = ipaddress.ip_address("255.255.255.255")

_decoder = msgspec.json.Decoder(MeshReport)


async def exchange(core: Core, request: web.Request) -> web.Response:
    """Store the results of a node; respond with its peers, at once or when they change."""
    mesh, caller = core.registry.part(Mesh), request[CALLER]
    with request.app[BACKPRESSURE].request(caller) as request[COUNT_BYTES]:
        report = await read_json(request, _decoder)
    _check(report, caller, mesh)
    member = MeshMember(report.node, report.session, report.port, _host(report, request))
    if not mesh.put(member, report.results, core.clock()):
        raise ApiError(
            HTTPStatus.TOO_MANY_REQUESTS,
            f"node {report.node} changes its address or session too often: does another agent use this name?",
            headers={hdrs.RETRY_AFTER: str(_RETRY_SECONDS)},
        )
    assignment = await mesh.changed_assignment(report.node, report.version, report.wait_seconds)
    if assignment.version == report.version:
        assignment = msgspec.structs.replace(assignment, peers=None)
    # The node waited for the response, so it is still there.
    mesh.keep(member, core.clock())
    return json_response(assignment)


def _check(report: MeshReport, caller: Caller, mesh: Mesh) -> None:
    if not mesh.is_enabled:
        raise ApiError(
            HTTPStatus.CONFLICT,
            "the mesh is off: set mesh.enabled in collector.toml",
            headers={hdrs.RETRY_AFTER: str(_RETRY_SECONDS)},
        )
    if not caller.may_report_for(report.node):
        raise ApiError(
            HTTPStatus.FORBIDDEN,
            f"this token or certificate is not valid for node {report.node}. Create a token with:"
            f" wattpack token add node {report.node}",
            "$.node",
        )


def _host(report: MeshReport, request: web.Request) -> str:
    """The IP address under which peers reach a node."""
    host = report.host or request.remote or ""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        address = _BROADCAST
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_multicast or address.is_unspecified or address == _BROADCAST:
        raise ApiError(
            HTTPStatus.BAD_REQUEST,
            f"{host!r} is not the IP address of a host: set mesh.advertise in agent.toml",
            "$.host",
        )
    return str(address)


ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/v1/mesh",
        summary="Send the results of a node's probes; get its peers and their keys. Agents use this route.",
        serve=exchange,
        body=MeshReport,
        needs=Scope.NODE,
        is_stream=True,
        responses={
            HTTPStatus.OK: ResponseSpec("The peers of the node.", MeshAssignment),
            **BAD_BODY,
            **FORBIDDEN,
            **problem(HTTPStatus.CONFLICT, "The mesh is off."),
            **problem(HTTPStatus.TOO_MANY_REQUESTS, "The node changes too often; retry after Retry-After."),
        },
    ),
)

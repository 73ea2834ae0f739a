"""Deployments of new services."""

from http import HTTPStatus

from collector.features.deployments.models import Deployment, DeployRequest
from collector.features.deployments.placement import deploy
from collector.serve.api.control import Api
from collector.serve.web.routes import NO_HISTORY, Route, post, problem
from collector.serve.web.scopes import Scope


async def deploy_services(api: Api, request: DeployRequest) -> Deployment:
    """Choose the nodes of new services: make room if needed, and reserve the nodes.

    The response has temporary constraints for the new services. The control loop removes them once all tasks
    have a node.
    """
    return await deploy(api.control, request)


ROUTES: tuple[Route, ...] = (
    post(
        "/v1/deploy",
        deploy_services,
        problems={
            **NO_HISTORY,
            **problem(HTTPStatus.CONFLICT, "A service fits on no node, or the control loop is not active."),
        },
        scope=Scope.ADMIN,
    ),
)

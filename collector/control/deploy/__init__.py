"""New services: where they start, and how their creator makes them start there."""

from collector.control.deploy.models import Deployment, DeployRequest, NewService, ServiceDeployment
from collector.control.deploy.placing import deploy

__all__ = ["DeployRequest", "Deployment", "NewService", "ServiceDeployment", "deploy"]

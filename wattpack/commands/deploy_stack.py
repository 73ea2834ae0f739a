"""`wattpack deploy stack`: deploy a stack file on a Swarm, on nodes that the policy chooses."""

import argparse
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from collector.features.deployments.models import Deployment
from wattpack.client.collector import add_collector_options, post_as
from wattpack.client.stack import constrained_stack, read_stack, service_requests, stack_name
from wattpack.config.arguments import add
from wattpack.output.text import print_result
from wire.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "STACK.yml", "stack file (Compose)", Path, dest="file")
    add(parser, "--name NAME", "name of the stack (default: as in the file, or its folder)")
    add(parser, "--docker-option OPTION...", "option of docker stack deploy, such as --with-registry-auth")
    add_deploy_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    document = read_stack(arguments.file)
    name = arguments.name or stack_name(document, arguments.file)
    deployment = request_deployment(arguments, service_requests(document, name))
    if arguments.dry_run:
        return 0
    text = constrained_stack(document, name, deployment.services)
    run_docker(
        arguments.docker, "stack", "deploy", "--compose-file", "-", *arguments.docker_option, name, stdin=text
    )
    return 0


def add_deploy_arguments(parser: argparse.ArgumentParser) -> None:
    """Options for the policy, the collector and Docker."""
    add(parser, "--policy POLICY", "policy to use (default: as configured in the collector)")
    add(parser, "--pack", "allow replicas of a service to share a node")
    add(parser, "--dry-run", "only show where the services would start")
    add(parser, "--docker PATH", "docker command", default="docker")
    add_collector_options(parser)


def request_deployment(arguments: argparse.Namespace, services: Sequence[dict[str, Any]]) -> Deployment:
    """Ask the collector where services start, and print it; without `--dry-run`, this reserves the nodes."""
    question = {
        "services": services,
        "policy": arguments.policy,
        "spread": not arguments.pack,
        "dry": arguments.dry_run,
    }
    deployment = post_as(arguments, "/v1/deploy", question, Deployment)
    print_result(arguments, deployment, _lines(deployment))
    return deployment


def _lines(deployment: Deployment) -> Iterator[str]:
    for each in deployment.services:
        nodes = ", ".join(
            node if count == 1 else f"{node} ({count})" for node, count in sorted(each.nodes.items())
        )
        if each.left_to_orchestrator is not None:
            yield f"{each.name}: Swarm chooses: {each.left_to_orchestrator}"
        else:
            yield f"{each.name}: {nodes}"
            yield from (f"  {reason}" for reason in each.reasons)


def run_docker(program: str, *options: str, stdin: str | None = None) -> None:
    """Run a docker command with the user's own rights. Raise `UserError` if it fails."""
    found = shutil.which(program)
    if found is None:
        raise UserError(f"there is no command {program}: install the Docker client, or use --docker")
    done = subprocess.run(  # noqa: S603 - the user's own command and options
        [found, *options], check=False, input=None if stdin is None else stdin.encode(), env=os.environ
    )
    if done.returncode:
        raise UserError(f"docker {' '.join(options[:2])} failed with exit code {done.returncode}: see above")

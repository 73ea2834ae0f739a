"""`wattpack deploy`: deploy a stack file or create a service on a Swarm, on nodes that the policy chooses."""

import argparse
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from collector.features.deployments.models import Deployment
from wattpack.client.collector import add_collector_options, post
from wattpack.client.stack import (
    constrained_stack,
    parse_docker_size,
    read_stack,
    service_requests,
    stack_name,
)
from wattpack.commands import Functions
from wattpack.config.arguments import add
from wattpack.output.text import print_result
from wire.errors import UserError


def _add_stack_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "STACK.yml", "stack file (Compose)", Path, dest="file")
    add(parser, "--name NAME", "name of the stack (default: as in the file, or its folder)")
    add(parser, "--docker-option OPTION...", "option of docker stack deploy, such as --with-registry-auth")
    _add_deploy_arguments(parser)


def _deploy_stack(arguments: argparse.Namespace) -> int:
    document = read_stack(arguments.file)
    name = arguments.name or stack_name(document, arguments.file)
    deployment = _request_deployment(arguments, service_requests(document, name))
    if arguments.dry_run:
        return 0
    text = constrained_stack(document, name, deployment.services)
    _run_docker(
        arguments.docker, "stack", "deploy", "--compose-file", "-", *arguments.docker_option, name, stdin=text
    )
    return 0


def _add_service_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "NAME", "name of the service")
    add(parser, "IMAGE", "image of its containers")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="command and arguments")
    add(parser, "--replicas N", "number of containers", int, default=1)
    add(parser, "--cpu CORES", "reserved CPU of each container", float)
    add(parser, "--memory SIZE", "reserved memory of each container, such as 512M")
    for option, what in (
        ("label", "label of the service, KEY=VALUE"),
        ("constraint", "constraint of the service"),
        ("docker-option", "option of docker service create, such as --network=web"),
    ):
        add(parser, f"--{option} VALUE...", f"{what}")
    _add_deploy_arguments(parser)


def _deploy_service(arguments: argparse.Namespace) -> int:
    reserve: dict[str, float | int] = {}
    options = [f"--name={arguments.name}", "--detach", *arguments.docker_option]
    if arguments.cpu is not None:
        reserve["cpu_cores"] = arguments.cpu
        options.append(f"--reserve-cpu={arguments.cpu:g}")
    if arguments.memory is not None:
        try:
            reserve["memory_bytes"] = parse_docker_size(arguments.memory)
        except ValueError as error:
            raise UserError(f"--memory: {error}") from None
        options.append(f"--reserve-memory={reserve['memory_bytes']}")
    labels = dict(each.partition("=")[::2] for each in arguments.label)
    service = {
        "name": arguments.name,
        "image": arguments.image,
        "replicas": arguments.replicas,
        "reserve": reserve,
        "labels": labels,
        "constraints": arguments.constraint,
    }
    deployment = _request_deployment(arguments, [service])
    if arguments.dry_run:
        return 0
    [chosen] = deployment.services
    replicas = arguments.replicas if chosen.left_to_orchestrator is not None else chosen.replicas
    options += [
        f"--replicas={replicas}",
        *(f"--constraint={each}" for each in (*arguments.constraint, *chosen.constraints)),
        *(f"--label={key}={value}" for key, value in (labels | chosen.labels).items()),
    ]
    _run_docker(arguments.docker, "service", "create", *options, arguments.image, *arguments.command)
    return 0


def _add_deploy_arguments(parser: argparse.ArgumentParser) -> None:
    """Options for the policy, the collector and Docker."""
    add(parser, "--policy POLICY", "policy to use (default: as configured in the collector)")
    add(parser, "--pack", "allow replicas of a service to share a node")
    add(parser, "--dry-run", "only show where the services would start")
    add(parser, "--docker PATH", "docker command", default="docker")
    add_collector_options(parser)


def _request_deployment(arguments: argparse.Namespace, services: Sequence[dict[str, Any]]) -> Deployment:
    """Ask the collector where services start, and print it; without `--dry-run`, this reserves the nodes."""
    question = {
        "services": services,
        "policy": arguments.policy,
        "spread": not arguments.pack,
        "dry": arguments.dry_run,
    }
    deployment = post(arguments, "/v1/deploy", question, Deployment)
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


def _run_docker(program: str, *options: str, stdin: str | None = None) -> None:
    """Run a docker command with the user's own rights. Raise `UserError` if it fails."""
    found = shutil.which(program)
    if found is None:
        raise UserError(f"there is no command {program}: install the Docker client, or use --docker")
    done = subprocess.run(  # noqa: S603 - the user's own command and options
        [found, *options], check=False, input=None if stdin is None else stdin.encode(), env=os.environ
    )
    if done.returncode:
        raise UserError(f"docker {' '.join(options[:2])} failed with exit code {done.returncode}: see above")


FUNCTIONS = {
    "deploy stack": Functions(_add_stack_arguments, _deploy_stack),
    "deploy service": Functions(_add_service_arguments, _deploy_service),
}

"""`wattpack deploy`: deploy a stack file on a Swarm, on nodes that the policy chooses."""

import argparse
from pathlib import Path

from wattpack.client.deployments import add_deploy_arguments, print_deployment, request_deployment, run_docker
from wattpack.client.stack import constrained_stack, read_stack, service_requests, stack_name


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="STACK.yml", type=Path, help="stack file (Compose)")
    parser.add_argument("--name", help="name of the stack (default: as in the file, or its folder)")
    parser.add_argument(
        "--docker-option",
        action="append",
        default=[],
        metavar="OPTION",
        help="option of docker stack deploy, such as --with-registry-auth; may be given several times",
    )
    add_deploy_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    document = read_stack(arguments.file)
    name = arguments.name or stack_name(document, arguments.file)
    deployment = request_deployment(arguments, service_requests(document, name))
    print_deployment(arguments, deployment)
    if arguments.dry_run:
        return 0
    text = constrained_stack(document, name, deployment.services)
    run_docker(
        arguments.docker, "stack", "deploy", "--compose-file", "-", *arguments.docker_option, name, stdin=text
    )
    return 0

"""`wattpack deploy service`: create a Swarm service on nodes that the policy chooses."""

import argparse

from wattpack.client.stack import parse_docker_size
from wattpack.commands.deploy_stack import add_deploy_arguments, request_deployment, run_docker
from wattpack.config.arguments import add
from wire.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
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
    add_deploy_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
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
    deployment = request_deployment(arguments, [service])
    if arguments.dry_run:
        return 0
    [chosen] = deployment.services
    replicas = arguments.replicas if chosen.left_to_orchestrator is not None else chosen.replicas
    options += [
        f"--replicas={replicas}",
        *(f"--constraint={each}" for each in (*arguments.constraint, *chosen.constraints)),
        *(f"--label={key}={value}" for key, value in (labels | chosen.labels).items()),
    ]
    run_docker(arguments.docker, "service", "create", *options, arguments.image, *arguments.command)
    return 0

"""Deployments: asks a collector for the nodes of services, and creates these with the docker command."""

import argparse
import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

from collector.features.deployments.models import Deployment
from wattpack.client.collector import add_collector_options, query_collector
from wattpack.output.text import json_text
from wire.errors import UserError


def add_deploy_arguments(parser: argparse.ArgumentParser) -> None:
    """Options for the policy, the collector and Docker."""
    parser.add_argument("--policy", help="policy to use (default: as configured in the collector)")
    parser.add_argument("--pack", action="store_true", help="allow replicas of a service to share a node")
    parser.add_argument("--dry-run", action="store_true", help="only show where the services would start")
    parser.add_argument("--docker", default="docker", metavar="PATH", help="docker command (default: docker)")
    add_collector_options(parser)


def request_deployment(arguments: argparse.Namespace, services: Sequence[dict[str, Any]]) -> Deployment:
    """Ask the collector where services start; without `--dry-run`, this reserves the nodes."""
    question = {
        "services": services,
        "policy": arguments.policy,
        "spread": not arguments.pack,
        "dry": arguments.dry_run,
    }
    return query_collector(arguments, lambda collector: collector.post_as("/v1/deploy", question, Deployment))


def print_deployment(arguments: argparse.Namespace, deployment: Deployment) -> None:
    """Print where each service starts, and why."""
    print(json_text(deployment) if arguments.json else "\n".join(format_deployment(deployment)))


def format_deployment(deployment: Deployment) -> list[str]:
    """Where each service starts, and why."""
    lines = []
    for each in deployment.services:
        nodes = ", ".join(
            node if count == 1 else f"{node} ({count})" for node, count in sorted(each.nodes.items())
        )
        if each.left_to_orchestrator is not None:
            lines.append(f"{each.name}: Swarm chooses: {each.left_to_orchestrator}")
        else:
            lines += [f"{each.name}: {nodes}", *(f"  {reason}" for reason in each.reasons)]
    return lines


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

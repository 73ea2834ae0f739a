import pytest
import yaml

from collector.features.deployments.models import ServiceDeployment
from wattpack.client.stack import constrained_stack, parse_docker_size, parse_stack, service_requests
from wire.errors import UserError

STACK = """
version: "3.8"
x-common: &common
  image: registry/web:${TAG:-1}
services:
  web:
    <<: *common
    ports: [22:22, "80:8080"]
    environment: {DEBUG: yes, LEVEL: 1}
    deploy:
      replicas: ${WEB_REPLICAS:-2}
      labels: ["wattpack.class=3", own=label]
      resources:
        limits: {cpus: "2", memory: 1G}
        reservations: {cpus: "0.5"}
      placement: {constraints: [node.labels.zone == north], max_replicas_per_node: 1}
  everywhere:
    image: agent
    deploy: {mode: global}
configs:
  one: {file: ./one}
"""


def test_what_matters_for_placement_is_read_and_variables_are_replaced() -> None:
    web, everywhere = service_requests(parse_stack(STACK, "stack.yml"), "shop", {"TAG": "7"})
    assert web == {
        "name": "shop_web",
        "image": "registry/web:7",
        "mode": "replicated",
        "replicas": 2,
        "reserve": {"cpu_cores": 0.5, "memory_bytes": 1 << 30},
        "labels": {"wattpack.class": "3", "own": "label"},
        "constraints": ["node.labels.zone == north"],
        "max_replicas_per_node": 1,
        "application": "shop",
    }
    assert (everywhere["name"], everywhere["mode"]) == ("shop_everywhere", "global")


def test_docker_gets_the_rest_of_the_file_as_it_was() -> None:
    document = parse_stack(STACK, "stack.yml")
    held = ServiceDeployment(
        name="shop_web",
        nodes={"n1": 1, "n2": 1},
        replicas=1,
        constraints=("node.id==x",),
        labels={"wattpack.before": '{"a": "$1"}'},
    )
    left = ServiceDeployment(name="shop_everywhere", left_to_orchestrator="it runs on every node")
    again = yaml.safe_load(constrained_stack(document, "shop", [held, left]))
    web = again["services"]["web"]
    # Docker replaces the variables; and knows no numbers to base 60.
    assert (web["image"], web["ports"]) == ("registry/web:${TAG:-1}", ["22:22", "80:8080"])
    assert web["environment"] == {"DEBUG": "yes", "LEVEL": 1}
    assert web["deploy"]["replicas"] == 1
    assert web["deploy"]["placement"] == {
        "constraints": ["node.labels.zone == north", "node.id==x"],
        "max_replicas_per_node": 1,
    }
    assert web["deploy"]["labels"] == {
        "wattpack.class": "3",
        "own": "label",
        "wattpack.before": '{"a": "$$1"}',
    }
    assert again["services"]["everywhere"] == document["services"]["everywhere"]
    assert again["configs"] == {"one": {"file": "./one"}}


def aliases(each: str) -> str:
    """A file whose last line stands for 2**40 values."""
    lines = [f"x{number}: &a{number} {each.format(number - 1)}" for number in range(1, 40)]
    return "\n".join(["x0: &a0 {key: value}", *lines, "services: {web: {labels: *a39}}"])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: [", "not valid YAML"),
        ("version: '3'", "has no services"),
        ("services: {}", "has no services"),
        ("services: {web: 1}", r"services\.web must be a table"),
        (aliases("[*a{0}, *a{0}]"), "too many values"),
        (aliases("{{<<: [*a{0}, *a{0}]}}"), "too many values"),
        ("services: {web: &web {labels: *web}}", "an alias contains itself"),
        ("services: " + "[" * 5000, "is nested too deeply"),
        ("services: {web: {scale: !!int many}}", "has an invalid value"),
        ("services: {web: {scale: " + "9" * 5000 + "}}", "has an invalid value"),
    ],
)
def test_what_is_no_stack_is_an_error(text: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        parse_stack(text, "stack.yml")


def test_a_wrong_value_names_its_service() -> None:
    document = parse_stack("services: {web: {deploy: {resources: {limits: {memory: lots}}}}}", "stack.yml")
    with pytest.raises(UserError, match=r"services\.web: 'lots' is not a size"):
        service_requests(document, "shop", {})
    huge = parse_stack(
        "services: {web: {deploy: {resources: {limits: {memory: '" + "9" * 400 + "'}}}}}", "it"
    )
    with pytest.raises(UserError, match=r"services\.web: "):
        service_requests(huge, "shop", {})
    required = parse_stack("services: {web: {image: '${IMAGE:?name one}'}}", "stack.yml")
    with pytest.raises(UserError, match="the variable IMAGE is not set: name one"):
        service_requests(required, "shop", {})


@pytest.mark.parametrize(("text", "size"), [("8M", 8 << 20), ("1gb", 1 << 30), ("512", 512), ("1.5k", 1536)])
def test_sizes_are_those_of_docker(text: str, size: int) -> None:
    assert parse_docker_size(text) == size

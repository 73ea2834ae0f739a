"""What a Compose file says of an application."""

from pathlib import Path

import pytest

from wattpack.client.stack import parse_stack, read_stack, stack_name
from wattpack.commands.hint_app import read_application
from wire.errors import UserError

SHOP = Path(__file__).parent / "compose" / "shop.yaml"


def test_a_compose_file_is_an_application() -> None:
    document = read_stack(SHOP)
    assert stack_name(document, SHOP) == "shop"
    found = read_application(document, "shop", {"TAG": "2"})
    web, db, cache = found.services
    assert web == {
        "service": "shop_web",
        "image": "registry.example.com/shop/web:2",
        "replicas": 3,
        "reserve": {"cpu_cores": 0.5, "memory_bytes": 512 << 20},
        "labels": {"wattpack.delay-max": "85ms", "wattpack.talks-to": "db, cache"},
        "constraints": ["zone!=dmz"],
    }
    assert (db["reserve"], db["replicas"]) == ({"cpu_cores": 1.5, "memory_bytes": 1 << 30}, 1)
    assert (cache["reserve"], cache["replicas"]) == ({"memory_bytes": 256 << 20}, 2)
    assert found.notes == [
        "the constraint node.role == worker of shop_web is not checked",
        "shop_logs is left out: it runs on every node, or is a job",
    ]


def test_constraint_that_swarm_would_not_match_with_a_label_is_not_checked() -> None:
    text = "services: {a: {deploy: {placement: {constraints: [zone==a, node.labels.zone==b]}}}}"
    found = read_application(parse_stack(text, "f.yaml"), "x", {})
    assert found.services[0]["constraints"] == ["zone==b"]
    assert found.notes == ["the constraint zone==a of x_a is not checked"]


def test_variables_are_replaced_in_keys_outside_of_deploy() -> None:
    text = "services: {a: {scale: '${N:-2}', mem_limit: '${MEMORY}', cpus: '${CPUS}'}}"
    found = read_application(parse_stack(text, "f.yaml"), "x", {"MEMORY": "256m", "CPUS": "0.5"})
    assert found.services[0]["replicas"] == 2
    assert found.services[0]["reserve"] == {"cpu_cores": 0.5, "memory_bytes": 256 << 20}


def test_services_that_the_file_does_not_contain_are_noted() -> None:
    text = "services: {a: {labels: {wattpack.talks-to: 'b, x_b, cc'}}, b: {}}"
    found = read_application(parse_stack(text, "f.yaml"), "x", {})
    assert found.notes == ["x_a talks to cc, which is not in the file: check wattpack.talks-to"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("services: {a: {deploy: {mode: global}}}", "x has no container to place: x_a is left out: it runs"),
        ("services: {a: {scale: 0}}", "x has no container to place: x_a is left out: it has no replicas"),
        ("services: {a: {scale: many}}", "services.a: scale must be a number of containers such as 3, not"),
        ("services: {a: {deploy: {replicas: two}}}", "services.a: replicas must be a number of containers"),
        ("services: {a: {deploy: {replicas: -3}}}", "services.a: replicas must be a number of containers"),
        ("services: {a: {cpus: -1}}", "services.a: cpus must be a number of cores such as 0.5, not -1"),
        ("services: {a: {scale: 500}}", "x has 1 service and 500 containers, limit 100 and 200: split"),
        ("services:\n  a:\n", "f.yaml: services.a must be a table"),
        ("services: {a: {mem_limit: lots}}", "services.a: 'lots' is not a size"),
        ("services: {a: {cpus: [1]}}", "services.a: cpus must be a number of cores such as 0.5, not"),
        (
            "services: {a: {labels: {wattpack.delay-max: quick}}}",
            "services.a: the label wattpack.delay-max: 'quick' is not a time: use a value such as 85ms",
        ),
        ("services: []", "f.yaml has no services: write them under the key services"),
        ("a: [", "f.yaml is not valid YAML"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(text: str, why: str) -> None:
    with pytest.raises(UserError) as error:
        read_application(parse_stack(text, "f.yaml"), "x", {})
    assert str(error.value).startswith(why)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*gone\.yaml \(no such file or directory\)"):
        read_stack(tmp_path / "gone.yaml")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match=r"cannot read .*binary \(not UTF-8 text\)"):
        read_stack(tmp_path / "binary")

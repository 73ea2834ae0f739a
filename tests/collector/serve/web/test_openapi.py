from typing import Any

import msgspec
import pytest

from collector.serve.api.table import ROUTES
from collector.serve.web.descriptions import FIELDS, describe_fields, describe_name, object_types
from collector.serve.web.openapi import document, types_of

DOCUMENT = document(ROUTES)


def operations() -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{method} {path}", operation)
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
    ]


def test_every_operation_has_a_described_tag() -> None:
    described = {tag["name"]: tag["description"] for tag in DOCUMENT["tags"]}
    assert all(described.values())
    for name, operation in operations():
        [tag] = operation["tags"]
        assert tag in described, name


def test_every_property_and_parameter_has_a_description() -> None:
    for name, schema in DOCUMENT["components"]["schemas"].items():
        for field, kind in schema.get("properties", {}).items():
            assert kind.get("description"), f"{name}.{field}"
    for name, operation in operations():
        for parameter in operation["parameters"]:
            assert parameter["description"], f"{name}: {parameter['name']}"


def test_no_description_only_repeats_the_name() -> None:
    repeating = [
        f"{kind.cls.__name__}.{field.name}"
        for kind in object_types(types_of(ROUTES))
        for field in kind.fields
        if field.name not in FIELDS and describe_fields(kind)[field.encode_name] == describe_name(field.name)
    ]
    assert repeating == []


def test_every_body_has_a_valid_example() -> None:
    for route in ROUTES:
        operation = DOCUMENT["paths"][route.path][route.method.lower()]
        if route.body is not None:
            example = operation["requestBody"]["content"]["application/json"]["example"]
            msgspec.json.decode(msgspec.json.encode(example), type=route.body)
        for status, response in route.responses.items():
            content = operation["responses"][str(status.value)]["content"][response.content_type]
            if "$ref" in content["schema"]:
                msgspec.json.decode(msgspec.json.encode(content["example"]), type=response.type)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("used_memory_bytes", "Used memory, in bytes."),
        ("spare_cpu_cores", "Spare CPU, in CPU cores."),
        ("seen_at", "Seen, as Unix time."),
        ("opened_at", "Unix time at which the alert opened, by the clock of its node."),
        ("name", "Name."),
        ("joules", "Joules."),
    ],
)
def test_name_as_a_description(name: str, expected: str) -> None:
    assert describe_name(name) == expected


def test_docstring_of_a_field_is_its_description() -> None:
    class Below(msgspec.Struct):
        inherited: int
        """From the class above,
        on two lines."""

    class Above(Below):
        own: int
        """Its own."""
        renamed: int = msgspec.field(name="class")

    [above] = object_types([Above])
    assert describe_fields(above) == {
        "inherited": "From the class above, on two lines.",
        "own": "Its own.",
        "class": "Renamed.",
    }

"""The OpenAPI 3.1 document, made from the table of routes and the types that travel."""

from collections.abc import Iterator, Sequence
from inspect import cleandoc
from typing import Any

import msgspec

from collector.body import JSON_TYPE
from collector.routes import Route
from wire.version import __version__

Json = dict[str, Any]


def document(routes: Sequence[Route]) -> Json:
    """Describe `routes` for programs."""
    paths: Json = {}
    schemas: Json = {}
    for route in routes:
        operation: Json = {
            "operationId": _operation_id(route),
            "summary": route.summary,
            "parameters": list(_parameters(route.query)),
            "responses": {
                str(status.value): {
                    "description": answer.description,
                    "content": {answer.content_type: {"schema": _schema(answer.type, schemas)}},
                }
                for status, answer in route.answers.items()
            },
        }
        if route.body is not None:
            body = {JSON_TYPE: {"schema": _schema(route.body, schemas)}}
            operation["requestBody"] = {"required": True, "content": body}
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Wattpack collector",
            "version": __version__,
            "summary": "What the hosts and containers of a cluster use and draw.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _operation_id(route: Route) -> str:
    name = route.path.strip("/").replace("/", "_").replace(".", "_") or "page"
    return f"{route.method.lower()}_{name}"


def _schema(kind: object, schemas: Json) -> Json:
    """The schema of a type; what it refers to is added to `schemas`."""
    (schema,), found = msgspec.json.schema_components([kind], ref_template="#/components/schemas/{name}")
    schemas.update((name, _tidy(each)) for name, each in found.items())
    return schema


def _parameters(query: type[msgspec.Struct]) -> Iterator[Json]:
    (_,), components = msgspec.json.schema_components([query], ref_template="{name}")
    asked = components[query.__name__]
    for name, schema in asked["properties"].items():
        described = dict(schema)
        # Not given is not the same as null, which a query string cannot say.
        kinds = [kind for kind in described.pop("anyOf", []) if kind != {"type": "null"}]
        if described.get("default", ...) is None:
            described.pop("default")
        yield {
            "name": name,
            "in": "query",
            "required": name in asked.get("required", ()),
            "description": described.pop("description", ""),
            "schema": (kinds[0] if kinds else {}) | described,
        }


def _tidy(schema: Json) -> Json:
    if "description" in schema:
        schema = schema | {"description": cleandoc(schema["description"])}
    return schema

"""The OpenAPI 3.1 document, generated from the route table and its types."""

import re
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from inspect import cleandoc
from typing import Any

import msgspec

from collector.serve.web.bodies import JSON_TYPE
from collector.serve.web.descriptions import describe_fields, describe_name, example_of, object_types
from collector.serve.web.routes import UNAUTHORIZED, ResponseSpec, Route
from collector.serve.web.scopes import Scope
from wire.version import __version__

Json = dict[str, Any]


def document(routes: Sequence[Route]) -> Json:
    """The OpenAPI document of `routes`."""
    paths: Json = {}
    schema_of, schemas = _schemas(routes)
    for route in routes:
        name = re.sub(r"\W+", "_", route.path).strip("_") or "page"
        operation: Json = {
            "operationId": f"{route.method.lower()}_{name}",
            "tags": [_tag(route)],
            "summary": route.summary,
            "parameters": list(_parameters(route)),
            "responses": {
                str(status.value): {
                    "description": response.description,
                    "content": {response.content_type: _content(response.type, schema_of, schemas)}
                    | ({response.text_type: {"schema": {"type": "string"}}} if response.text_type else {}),
                }
                for status, response in _responses(route).items()
            },
            "security": _security(route),
        }
        if route.body is not None:
            body = {JSON_TYPE: _content(route.body, schema_of, schemas)}
            operation["requestBody"] = {"required": True, "content": body}
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Wattpack collector",
            "version": __version__,
            "summary": "Resource usage, power and energy of the nodes and containers of a cluster.",
            "description": "Watts and joules cover whole machines at the wall; for a virtual machine, its"
            " share of the host.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "tags": _tags(routes),
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": _SECURITY_SCHEMES},
    }


_TAGS = {
    "cluster": "Totals of the cluster, and the health of the collector.",
    "nodes": "Nodes: state, usage, power, history.",
    "containers": "Containers: usage, need, power, history.",
    "services": "Services: containers, need of one container, dominant resource, power, history.",
    "slo": "Promises of availability: target and state.",
    "analysis": "Groups of similar containers, envelopes, free capacity of nodes.",
    "alerts": "Bottlenecks, nodes that do not report, overbooked nodes, promises at risk.",
    "events": "Events of nodes and containers, as a list and as a stream.",
    "energy": "Energy over a period, and estimates of power.",
    "hints": "Nodes for new containers, and changes that a policy recommends.",
    "control": "The control loop: policies, decisions, pauses, deployments.",
    "kubernetes": "For kube-scheduler: the extender protocol, and the load of nodes.",
    "reports": "For agents: join the cluster and send reports.",
    "server": "The page, metrics and this document.",
}
_TAG_OF = {
    "join": "reports",
    "groups": "analysis",
    "stream": "events",
    "what-if": "energy",
    "healthz": "cluster",
    "readyz": "cluster",
    "watcher": "kubernetes",
    **dict.fromkeys(("policies", "decisions", "room", "deploy"), "control"),
    **dict.fromkeys(("openapi.json", "metrics", ""), "server"),
}


def _tag(route: Route) -> str:
    """The topic of a route: by `_TAG_OF`, or else the first part of its path."""
    first = route.path.removeprefix("/v1").split("/")[1]
    return _TAG_OF.get(first, first)


def _tags(routes: Sequence[Route]) -> list[Json]:
    """The topics in the order of the routes, each with a description or the summary of its first route."""
    first = {_tag(route): route.summary for route in reversed(routes)}
    names = dict.fromkeys(map(_tag, routes))
    return [{"name": name, "description": _TAGS.get(name, first[name])} for name in names]


def _content(kind: Any, schema_of: Mapping[Any, Json], schemas: Json) -> Json:  # noqa: ANN401 - any type
    schema = schema_of[kind]
    has_example = "$ref" in schema or schema.get("type") == "array"
    return {"schema": schema} | ({"example": example_of(schema, schemas)} if has_example else {})


_SECURITY_SCHEMES: Json = {
    "token": {"type": "http", "scheme": "bearer", "description": "A token from `wattpack token add`."},
    "password": {
        "type": "http",
        "scheme": "basic",
        "description": "The same token as the password of any user, for browsers.",
    },
    "certificate": {
        "type": "mutualTLS",
        "description": "A client certificate for the node's name, signed by the CA in `tls.client_ca`.",
    },
}


def _responses(route: Route) -> Mapping[HTTPStatus, ResponseSpec]:
    return route.responses if route.scope is Scope.OPEN else {**route.responses, **UNAUTHORIZED}


def _security(route: Route) -> list[Json]:
    """Ways to authenticate; the last one is none, for a collector on loopback without tokens."""
    if route.scope is Scope.OPEN:
        return []
    tokens: list[Json] = [{"token": [route.scope.value]}, {"password": [route.scope.value]}]
    return [*tokens, *([{"certificate": []}] if route.scope is Scope.NODE else []), {}]


def types_of(routes: Sequence[Route]) -> list[Any]:
    """The types of all requests and responses, each once."""
    types = [response.type for route in routes for response in _responses(route).values()]
    return list(dict.fromkeys([*types, *(route.body for route in routes if route.body is not None)]))


def _schemas(routes: Sequence[Route]) -> tuple[dict[Any, Json], Json]:
    """The schema of each type of a request or response, and the schemas that these refer to.

    One call for all types: msgspec then qualifies two types of the same name by their modules.
    """
    kinds = types_of(routes)
    found, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    schemas = _tidy(components)
    for kind in object_types(kinds):
        qualified = re.sub(r"\W", "_", f"{kind.cls.__module__}.{kind.cls.__qualname__}")
        for name in (kind.cls.__name__, qualified):
            for field, text in describe_fields(kind).items():
                if field in (properties := schemas.get(name, {}).get("properties", {})):
                    properties[field].setdefault("description", text)
    for schema in schemas.values():
        # The tag of a struct is a property, but not a field.
        for field, properties in schema.get("properties", {}).items():
            properties.setdefault("description", describe_name(field))
    return dict(zip(kinds, _tidy(found), strict=True)), schemas


def _parameters(route: Route) -> Iterator[Json]:
    (_,), components = msgspec.json.schema_components([route.query], ref_template="{name}")
    query = components[route.query.__name__]
    texts = describe_fields(next(object_types([route.query])))
    for name, schema in query["properties"].items():
        described = dict(schema)
        # A query string cannot express null: the parameter is omitted.
        kinds = [kind for kind in described.pop("anyOf", []) if kind != {"type": "null"}]
        kinds = [components[kind["$ref"]] if "$ref" in kind else kind for kind in kinds]
        if described.get("default", ...) is None:
            described.pop("default")
        yield {
            "name": name,
            "in": "path" if f"{{{name}}}" in route.path else "query",
            "required": name in query.get("required", ()),
            "description": described.pop("description", "") or texts[name],
            "schema": (kinds[0] if kinds else {}) | described,
        }


def _tidy(schema: Any) -> Any:  # noqa: ANN401 - any part of a schema
    """Remove indentation from descriptions, and `uniqueItems`: a set may be sent with duplicates."""
    if isinstance(schema, list | tuple):
        return [_tidy(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: _tidy(each) for name, each in schema.items() if name != "uniqueItems"}
    if isinstance(text := schema.get("description"), str):
        kept["description"] = cleandoc(text)
    return kept

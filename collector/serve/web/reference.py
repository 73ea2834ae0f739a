"""The API reference in Markdown, generated from the OpenAPI document."""

from collections.abc import Iterator, Sequence
from typing import Any

from collector.serve.web.openapi import document
from collector.serve.web.routes import Route

_HEAD = """# Collector API

Requests and responses are JSON; `GET /openapi.json` is the same reference for programs. An error is a problem
document (RFC 9457) of type `application/problem+json`. Times are Unix seconds. An unknown quantity is omitted
or null, never zero. If the collector has tokens, send one as `Authorization: Bearer TOKEN`; an admin token is
valid for every route.
"""


def api_markdown(routes: Sequence[Route]) -> str:
    """The page `docs/api.md`."""
    described = document(routes)
    return "\n".join([_HEAD, *_routes(described), "## Types\n", *_types(described)])


def _routes(described: dict[str, Any]) -> Iterator[str]:
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            yield f"## `{method.upper()} {path}`\n"
            yield f"{operation['summary']}{_needs(operation['security'])}\n"
            if body := operation.get("requestBody"):
                yield f"Request body: {_kind(body['content']['application/json']['schema'])}.\n"
            if parameters := operation["parameters"]:
                yield "| parameter | type | default | description |\n|---|---|---|---|"
                for each in parameters:
                    schema = each["schema"]
                    default = schema.get("default", "")
                    yield f"| `{each['name']}` | {_kind(schema)} | {default} | {each['description']} |"
                yield ""
            yield "| status | type | description |\n|---|---|---|"
            for status, response in operation["responses"].items():
                kinds = (
                    _kind(content["schema"]) if content_type.endswith("json") else f"`{content_type}`"
                    for content_type, content in response["content"].items()
                )
                yield f"| {status} | {' or '.join(kinds)} | {response['description']} |"
            yield ""


def _needs(security: list[dict[str, list[str]]]) -> str:
    scopes = [scope for way in security for scope in way.get("token", ())]
    return f" Requires a token of kind `{scopes[0]}`." if scopes else ""


def _types(described: dict[str, Any]) -> Iterator[str]:
    for name, schema in sorted(described["components"]["schemas"].items()):
        yield f"### {name}\n"
        if text := schema.get("description"):
            yield f"{text}\n"
        if values := schema.get("enum"):
            yield f"One of {', '.join(f'`{value}`' for value in values)}.\n"
        if properties := schema.get("properties"):
            required = schema.get("required", [])
            yield "| field | type | required | description |\n|---|---|---|---|"
            for field, kind in properties.items():
                needed = "yes" if field in required else "no"
                yield f"| `{field}` | {_kind(kind)} | {needed} | {_cell(kind.get('description', ''))} |"
            yield ""


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _kind(schema: dict[str, Any]) -> str:
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if choices := schema.get("anyOf"):
        return " or ".join(_kind(choice) for choice in choices)
    if values := schema.get("enum"):
        return " or ".join(f"`{value}`" for value in values)
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if values := schema.get("additionalProperties"):
        return f"object of {_kind(values)}"
    return str(schema.get("type", "any"))

"""Descriptions and examples for the OpenAPI document, from the docstrings and names of fields."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from wire.settings import field_texts

Json = dict[str, Any]

_UNITS = {
    "_bytes_per_second": "in bytes per second",
    "_seconds": "in seconds",
    "_bytes": "in bytes",
    "_watts": "in watts",
    "_joules": "in joules",
    "_joules_total": "in joules since the start",
    "_ratio": "as a share from 0 to 1",
    "_cores": "in CPU cores",
    "_at": "as Unix time",
}
_ACRONYMS = {"cpu": "CPU", "slo": "SLO", "id": "id", "iowait": "I/O wait"}


def object_types(kinds: list[Any]) -> Iterator[msgspec.inspect.StructType | msgspec.inspect.DataclassType]:
    """All structs and dataclasses that these types contain, each once."""
    seen: set[Any] = set()
    pending = [msgspec.inspect.type_info(kind) for kind in kinds]
    while pending:
        info = pending.pop()
        if isinstance(info, msgspec.inspect.StructType | msgspec.inspect.DataclassType):
            if info.cls in seen:
                continue
            seen.add(info.cls)
            yield info
            pending += [field.type for field in info.fields]
            continue
        for name in ("types", "item_types"):
            pending += getattr(info, name, ())
        pending += [
            inner for name in ("item_type", "key_type", "value_type") if (inner := getattr(info, name, None))
        ]


def describe_fields(kind: msgspec.inspect.StructType | msgspec.inspect.DataclassType) -> dict[str, str]:
    """The description of each field, by its name in JSON."""
    texts = field_texts(kind.cls)
    return {
        field.encode_name: texts.get(field.name) or _count(field) or describe_name(field.name)
        for field in kind.fields
    }


def _count(field: msgspec.inspect.Field) -> str | None:
    return COUNTS.get(field.name) if isinstance(field.type, msgspec.inspect.IntType) else None


def describe_name(name: str) -> str:
    """The description in `FIELDS`, or the name in words: "Used memory, in bytes." for `used_memory_bytes`."""
    if name in FIELDS:
        return FIELDS[name]
    unit = ""
    for suffix, text in _UNITS.items():
        if name.endswith(suffix):
            name, unit = name.removesuffix(suffix), f", {text}"
            break
    words = " ".join(_ACRONYMS.get(word, word) for word in re.split("_+", name) if word)
    return f"{words[:1].upper()}{words[1:]}{unit}."


_EXAMPLES: Json = {
    "node": "web1",
    "service": "shop",
    "image": "shop:1.4",
    "id": "4f2a9c0d11e8",
    "slo_class": "silver",
    "policy": "least-watts",
    "at": 1_790_000_000.0,
    "memory_bytes": 536_870_912,
    "cpu_cores": 0.5,
    "by": "service",
    "sha256": "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8",
}


def example_of(schema: Json, schemas: Json, name: str = "", depth: int = 0) -> Any:  # noqa: ANN401 - JSON
    """An example that is valid for a schema; objects have only their required fields."""
    if reference := schema.get("$ref"):
        return example_of(schemas[reference.rpartition("/")[2]], schemas, name, depth + 1)
    if choices := schema.get("anyOf"):
        return example_of(choices[0], schemas, name, depth)
    if values := schema.get("enum"):
        return values[0]
    kind = schema.get("type")
    if kind == "object":
        fields = schema.get("properties", {})
        return {
            field: example_of(fields[field], schemas, field, depth) for field in schema.get("required", ())
        }
    if kind == "array":
        items = schema.get("prefixItems") or [schema["items"]] * (bool(schema.get("items")) and depth < _DEEP)
        return [example_of(each, schemas, name, depth) for each in items]
    return _simple_example(schema, name)


def _simple_example(schema: Json, name: str) -> Any:  # noqa: ANN401 - JSON
    known = _EXAMPLES["at"] if name.endswith("_at") else _EXAMPLES.get(name)
    match schema.get("type"):
        case "boolean":
            return True
        case "integer" | "number" as kind:
            number = known if isinstance(known, int | float) else 1
            number = min(max(number, schema.get("minimum", number)), schema.get("maximum", number))
            return int(number) if kind == "integer" else float(number)
        case "string":
            return str(known or name or "text")
    return schema.get("default")


_DEEP = 6


def _read_fields() -> dict[str, str]:
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return {name: text for topic in tomllib.loads(text).values() for name, text in topic.items()}


FIELDS: Mapping[str, str] = MappingProxyType(_read_fields())
"""Descriptions of fields that mean the same in every type; the docstring of a field overrides them."""
COUNTS: Mapping[str, str] = MappingProxyType(
    {name: f"Number of {name}." for name in ("nodes", "containers", "services")}
)
"""Fields that are a number in some types, and a list in others."""

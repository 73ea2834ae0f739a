"""Explain an invalid configuration: the file and line, the key, and the value or key that it needs."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
_NAMES = {"object": "a table", "array": "a list", **{kind.__name__: name for kind, name in KINDS.items()}}
_TABLE = re.compile(r"^\s*\[\s*(?P<path>[^\[\]]+?)\s*\]\s*(#.*)?$")
_KEY = re.compile(r"^\s*(?P<path>[A-Za-z0-9_.\"'-]+)\s*=")
_EXPECTED = re.compile(r"Expected `(?P<kind>\w+)(?: \| null)?`(?P<rest>.*)")
_FIELD = re.compile(r"Object (?P<what>contains unknown|missing required) field `(?P<name>[^`]*)`")
_OWN_KEY = re.compile(r"(?P<key>[a-z_]+(?:\.[\w*-]+)*): (?P<rest>.*)", re.DOTALL)

KeyPath = tuple[str, ...]


class Origin:
    """Tracks where values come from."""

    def __init__(self, file: Path | None, text: str) -> None:
        self.file = file
        self.lines = text.splitlines()
        self.overrides: dict[KeyPath, str] = {}

    def of(self, path: KeyPath) -> str:
        for depth in range(len(path), 0, -1):
            if where := self.overrides.get(path[:depth]):
                return where
            line = self._line(path[:depth])
            if line:
                return f"{self.file}, line {line}"
        inside = (where for key, where in self.overrides.items() if key[: len(path)] == path)
        return next(inside, str(self.file or "configuration"))

    def _line(self, path: KeyPath) -> int | None:
        table: KeyPath = ()
        for number, line in enumerate(self.lines, start=1):
            if header := _TABLE.match(line):
                table = _split(header["path"])
                found = table
            elif assignment := _KEY.match(line):
                found = (*table, *_split(assignment["path"]))
            else:
                continue
            if found == path:
                return number
        return None


def _split(dotted: str) -> KeyPath:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def unknown(what: str, name: str, valid: Sequence[str]) -> str:
    """The error for an unknown key or variable, with the nearest valid one."""
    # First the same key in another table: difflib prefers another key in the same table.
    near = [key for key in valid if key.rpartition(".")[2] == name.rpartition(".")[2]]
    near = near or difflib.get_close_matches(name, valid, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else "docs/configuration.md lists all of them"
    return f"unknown {what} {name!r}: {hint}"


def explain(error: Exception, tree: Mapping[str, Any], types: Mapping[KeyPath, Any], origin: Origin) -> str:
    """One sentence for the first error. `types` are those of all keys."""
    message, path = _parse(error)
    # A check of several keys names the key to change.
    own = _OWN_KEY.fullmatch(message)
    if own and _split(own["key"])[0] in tree:
        return f"{origin.of(_split(own['key']))}: {own['key']}: {own['rest']}"
    return _sentence(*_innermost(message, path, _at(tree, path), types.get(path)), origin)


def _innermost(message: str, path: KeyPath, value: Any, kind: Any) -> tuple[str, KeyPath, Any, Any]:  # noqa: ANN401 - of a file
    """Find which of several tables or items is wrong, which msgspec does not name."""
    for name, entry, entry_kind in _entries(value, kind):
        try:
            msgspec.convert(entry, entry_kind)
        except msgspec.ValidationError as inner:
            message, inside = _parse(inner)
            return _innermost(
                message, (*path, *name, *inside), _at(entry, inside), _type_of(entry_kind, inside)
            )
    return message, path, value, kind


def _parse(error: Exception) -> tuple[str, KeyPath]:
    """The message, and the path up to the first entry that has no name there."""
    message, _, at = str(error).partition(" - at `$")
    dotted = at.partition("[")[0].strip("`.")
    return message, tuple(dotted.split(".")) if dotted else ()


def _entries(value: object, kind: Any) -> Iterator[tuple[KeyPath, object, Any]]:  # noqa: ANN401 - a type hint
    if isinstance(value, dict) and get_origin(kind) is dict:
        yield from (((name,), entry, get_args(kind)[1]) for name, entry in value.items())
    elif isinstance(value, list) and get_origin(kind) is tuple:
        yield from (((), entry, get_args(kind)[0]) for entry in value)


def _at(value: Any, path: KeyPath) -> Any:  # noqa: ANN401 - a value of a settings file
    for part in path:
        value = value[part]
    return value


def _type_of(kind: Any, path: KeyPath) -> Any:  # noqa: ANN401 - a type hint
    for part in path:
        kind = get_type_hints(kind).get(part) if isinstance(kind, type) else None
    return kind


def _sentence(message: str, path: KeyPath, value: object, kind: object, origin: Origin) -> str:
    where, dotted = origin.of(path), ".".join(path)
    if match := _EXPECTED.fullmatch(message):
        rest = match["rest"].partition(", got ")[0].replace("matching regex", "that matches")
        wanted = _NAMES.get(match["kind"], match["kind"]) + rest
        return f"{where}: {dotted} must be {wanted}, not {value!r}"
    if message.startswith("Invalid enum value") and (choices := _choices(kind)):
        near = difflib.get_close_matches(str(value), choices, n=1)
        hint = f": did you mean {near[0]!r}?" if near else ""
        return f"{where}: {dotted} must be one of {', '.join(choices)}, not {value!r}{hint}"
    match = _FIELD.fullmatch(message)
    if match and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        field = ".".join((*path, match["name"]))
        if match["what"] == "missing required":
            return f"{where}: {field} is missing: set it"
        valid = [".".join((*path, name)) for name in kind.__struct_fields__]
        return f"{origin.of((*path, match['name']))}: {unknown('key', field, valid)}"
    return f"{where}: {f'{dotted}: ' if dotted else ''}{message[:1].lower()}{message[1:]}"


def _choices(kind: Any) -> list[str]:  # noqa: ANN401 - a type hint
    """The values of a choice, which may be optional or the items of a list."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [str(each.value) for each in kind]
    if get_origin(kind) is Literal:
        return [str(each) for each in get_args(kind)]
    return [choice for part in get_args(kind) for choice in _choices(part)]

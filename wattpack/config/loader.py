"""From a TOML file, the environment and flags to one checked configuration.

Later sources override earlier ones: defaults, file, environment, `--set`. The configuration classes define
all keys, so an error names the key, its line, and the value or the nearest key that is valid.
"""

import difflib
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from wire.errors import UserError, os_reason
from wire.settings import field_texts

Config = TypeVar("Config", bound=msgspec.Struct)
KeyPath = tuple[str, ...]

_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
_NAMES = {"array": "a list", **{kind.__name__: name for kind, name in _KINDS.items()}}
_TABLE = re.compile(r"^\s*\[\s*(?P<path>[^\[\]]+?)\s*\]\s*(#.*)?$")
_KEY = re.compile(r"^\s*(?P<path>[A-Za-z0-9_.\"'-]+)\s*=")
_EXPECTED = re.compile(r"Expected `(?P<kind>\w+)(?: \| null)?`(?P<rest>.*)")
_FIELD = re.compile(r"Object (?P<what>contains unknown|missing required) field `(?P<name>[^`]*)`")
_OWN_KEY = re.compile(r"(?P<key>[a-z_]+(?:\.[\w*-]+)*): (?P<rest>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Key:
    """One setting: its path, type, default, bounds, and the table that has it."""

    path: KeyPath
    table: type[msgspec.Struct]
    type: type
    default: object
    meta: Meta

    @property
    def description(self) -> str:
        return self.meta.description or field_texts(self.table).get(self.path[-1], "")

    @property
    def dotted(self) -> str:
        return ".".join(self.path)

    def variable(self, role: str) -> str:
        """Name of the environment variable for this key."""
        return "_".join(("WATTPACK", role, *self.path)).upper()


def keys(config: type[msgspec.Struct], prefix: KeyPath = ()) -> Iterator[Key]:
    """All keys of a configuration class, in order of declaration."""
    hints = get_type_hints(config, include_extras=True)
    for entry in msgspec.structs.fields(config):
        hint = hints[entry.name]
        path = (*prefix, entry.name)
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            yield from keys(hint, path)
        else:
            kind, meta = get_args(hint) if get_origin(hint) is Annotated else (hint, Meta())
            made = entry.default_factory
            default = entry.default if made is msgspec.NODEFAULT else made()
            yield Key(path, config, kind, default, meta)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Sources of settings, from the weakest to the strongest."""

    base: Mapping[str, Any] = field(default_factory=dict)
    """Settings that replace the defaults of the classes."""
    file: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    assignments: Sequence[str] = ()
    """`KEY=VALUE` of `--set`."""


def load(
    config: type[Config], role: str, sources: Sources, check: Callable[[Config], None] | None = None
) -> Config:
    """Read, merge and check the settings of one role; raises `UserError` for the first error.

    `check` raises a `UserError` that begins with the key to change.
    """
    every_key = list(keys(config))
    text = _read(sources.file) if sources.file else ""
    tree = _merged(sources.base, _parse(text, sources.file))
    origin = Origin([key.dotted for key in every_key], sources.file, text)
    overrides: dict[str, Any] = {}
    for key, value, where in [
        *_from_environment(every_key, role, sources.environment),
        *_from_assignments(every_key, sources.assignments),
    ]:
        origin.overrides[key.path] = where
        overrides = _merged(overrides, _override(key, value, where))
    if not _replaces_a_value(tree, overrides):
        tree = _merged(tree, overrides)
    try:
        loaded = msgspec.convert(tree, config)
        if check is not None:
            check(loaded)
    except (msgspec.ValidationError, UserError) as error:
        raise UserError(_explain(error, tree, config, origin)) from None
    return loaded


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        reason = os_reason(error)
        raise UserError(f"cannot read the configuration {file} ({reason}): check its path") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{file} is not UTF-8 text: save it as UTF-8") from error


def _parse(text: str, file: Path | None) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{file} is not TOML: {str(error)[:1].lower()}{str(error)[1:]}") from error


def _merged(base: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for name, value in override.items():
        if isinstance(value, dict) and isinstance(merged.get(name), dict):
            merged[name] = _merged(merged[name], value)
        else:
            merged[name] = value
    return merged


def _replaces_a_value(base: Mapping[str, Any], override: Mapping[str, Any]) -> bool:
    """Whether the file has a value where a table belongs: an error, also if an override is in that table."""
    return any(
        isinstance(value, dict)
        and name in base
        and (not isinstance(base[name], dict) or _replaces_a_value(base[name], value))
        for name, value in override.items()
    )


def _from_environment(
    every_key: Sequence[Key], role: str, environment: Mapping[str, str]
) -> Iterator[tuple[Key, str, str]]:
    by_variable = {key.variable(role): key for key in every_key}
    for variable, value in environment.items():
        if not variable.startswith(f"WATTPACK_{role.upper()}_"):
            continue
        if variable not in by_variable:
            raise UserError(_unknown("environment variable", variable, list(by_variable)))
        yield by_variable[variable], value, f"environment variable {variable}"


def _from_assignments(every_key: Sequence[Key], assignments: Sequence[str]) -> Iterator[tuple[Key, str, str]]:
    by_name = {key.dotted: key for key in every_key}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise UserError(f"--set {assignment}: use KEY=VALUE, such as --set sampling.interval_seconds=5")
        if name.strip() not in by_name:
            raise UserError(f"--set {assignment}: {_unknown('key', name, list(by_name))}")
        yield by_name[name.strip()], value.strip(), "--set"


def _override(key: Key, text: str, where: str) -> dict[str, Any]:
    """The tree with only this value."""
    try:
        value = text if key.type is str else msgspec.convert(text, key.type, strict=False)
    except msgspec.ValidationError:
        wanted = _KINDS.get(key.type, "tables, which only the file can hold")
        raise UserError(f"{where}: {key.dotted} must be {wanted}, not {text!r}") from None
    tree: Any = value
    for part in reversed(key.path):
        tree = {part: tree}
    return dict(tree)


# --- Errors -------------------------------------------------------------------------------------


class Origin:
    """All keys, and where values come from."""

    def __init__(self, every_key: Sequence[str], file: Path | None, text: str) -> None:
        self.every_key, self.file = every_key, file
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


def _unknown(what: str, name: str, valid: Sequence[str]) -> str:
    """The error for an unknown key or variable, with the nearest valid one."""
    # First the same key in another table: difflib prefers another key in the same table.
    near = [key for key in valid if key.rpartition(".")[2] == name.rpartition(".")[2]]
    near = near or difflib.get_close_matches(name, valid, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else "docs/configuration.md lists all of them"
    return f"unknown {what} {name!r}: {hint}"


def _explain(error: Exception, tree: Mapping[str, Any], config: type[msgspec.Struct], origin: Origin) -> str:
    """One sentence for the first error."""
    message, path = _parse_error(error)
    # A check of several keys names the key to change.
    own = _OWN_KEY.fullmatch(message)
    if own and _split(own["key"])[0] in tree:
        return f"{origin.of(_split(own['key']))}: {own['key']}: {own['rest']}"
    return _sentence(*_innermost(message, path, _at(tree, path), _type_of(config, path)), origin)


def _innermost(message: str, path: KeyPath, value: Any, kind: Any) -> tuple[str, KeyPath, Any, Any]:  # noqa: ANN401 - of a file
    """Find which of several tables or items is wrong, which msgspec does not name."""
    for name, entry, entry_kind in _entries(value, kind):
        try:
            msgspec.convert(entry, entry_kind)
        except msgspec.ValidationError as inner:
            message, inside = _parse_error(inner)
            return _innermost(
                message, (*path, *name, *inside), _at(entry, inside), _type_of(entry_kind, inside)
            )
    return message, path, value, kind


def _parse_error(error: Exception) -> tuple[str, KeyPath]:
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
        if match["kind"] == "object":
            return f"{where}: {dotted} is a table: put [{dotted}] above its keys"
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
        return f"{origin.of((*path, match['name']))}: {_unknown('key', field, [*valid, *origin.every_key])}"
    return f"{where}: {f'{dotted}: ' if dotted else ''}{message[:1].lower()}{message[1:]}"


def _choices(kind: Any) -> list[str]:  # noqa: ANN401 - a type hint
    """The values of a choice, which may be optional or the items of a list."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [str(each.value) for each in kind]
    if get_origin(kind) is Literal:
        return [str(each) for each in get_args(kind)]
    return [choice for part in get_args(kind) for choice in _choices(part)]

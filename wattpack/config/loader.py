"""From a TOML file, the environment and flags to one checked configuration.

Later sources override earlier ones: defaults, file, environment, `--set`. The configuration classes define
all keys, so an error names the key, its line, and the nearest valid key.
"""

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from wire.errors import UserError

Config = TypeVar("Config", bound=msgspec.Struct)

_TABLE = re.compile(r"^\s*\[\s*(?P<path>[^\[\]]+?)\s*\]\s*(#.*)?$")
_KEY = re.compile(r"^\s*(?P<path>[A-Za-z0-9_.\"'-]+)\s*=")


@dataclass(frozen=True, slots=True)
class Key:
    """One setting: its path, type, default and description."""

    path: tuple[str, ...]
    type: type
    default: object
    meta: Meta

    @property
    def dotted(self) -> str:
        return ".".join(self.path)

    def variable(self, role: str) -> str:
        """Name of the environment variable for this key."""
        return "_".join(("WATTPACK", role, *self.path)).upper()


_Keys = dict[tuple[str, ...], Key]


def keys(config: type[msgspec.Struct], above: tuple[str, ...] = ()) -> Iterator[Key]:
    """All keys of a configuration class, in order of declaration."""
    hints = get_type_hints(config, include_extras=True)
    for entry in msgspec.structs.fields(config):
        hint = hints[entry.name]
        path = (*above, entry.name)
        if get_origin(hint) is Annotated:
            kind, meta = get_args(hint)
            made = entry.default_factory
            yield Key(path, kind, entry.default if made is msgspec.NODEFAULT else made(), meta)
        else:
            yield from keys(hint, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Sources of settings, from the weakest to the strongest."""

    base: Mapping[str, Any] = field(default_factory=dict)
    """Settings that replace the defaults of the classes."""
    file: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    assignments: Sequence[str] = ()
    """`KEY=VALUE` of `--set`."""


def load(config: type[Config], role: str, sources: Sources) -> Config:
    """Read, merge and check the settings of one role; raises `UserError` for the first error."""
    valid_keys = {key.path: key for key in keys(config)}
    text = _read(sources.file) if sources.file else ""
    tree = _merged(sources.base, _parse(text, sources.file))
    origin = _Origin(sources.file, text)
    _refuse_unknown(tree, valid_keys, origin)
    for key, value, where in [
        *_from_environment(valid_keys, role, sources.environment),
        *_from_assignments(valid_keys, sources.assignments),
    ]:
        origin.overrides[key.path] = where
        _put(tree, key, value, where)
    try:
        return msgspec.convert(tree, config)
    except msgspec.ValidationError as error:
        raise UserError(_explained(error, tree, origin)) from None


class _Origin:
    """Tracks where values come from, for error messages."""

    def __init__(self, file: Path | None, text: str) -> None:
        self.file = file
        self.lines = text.splitlines()
        self.overrides: dict[tuple[str, ...], str] = {}

    def of(self, path: tuple[str, ...]) -> str:
        for depth in range(len(path), 0, -1):
            if where := self.overrides.get(path[:depth]):
                return where
            line = self._line(path[:depth])
            if line:
                return f"{self.file}, line {line}"
        inside = (where for key, where in self.overrides.items() if key[: len(path)] == path)
        return next(inside, str(self.file or "configuration"))

    def _line(self, path: tuple[str, ...]) -> int | None:
        table: tuple[str, ...] = ()
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


def _split(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(f"cannot read the configuration {file} ({reason}): check --config") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{file} is not UTF-8 text: save it as UTF-8") from error


def _parse(text: str, file: Path | None) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{file} is not TOML: {str(error)[:1].lower()}{str(error)[1:]}") from error


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for name, value in above.items():
        if isinstance(value, dict) and isinstance(merged.get(name), dict):
            merged[name] = _merged(merged[name], value)
        else:
            merged[name] = value
    return merged


def _refuse_unknown(
    tree: Mapping[str, Any], valid_keys: _Keys, origin: _Origin, above: tuple[str, ...] = ()
) -> None:
    tables = {path[:depth] for path in valid_keys for depth in range(1, len(path))}
    for name, value in tree.items():
        path = (*above, name)
        dotted = ".".join(path)
        if path in valid_keys:
            continue
        if path not in tables:
            raise UserError(f"{origin.of(path)}: {_unknown_key(dotted, valid_keys)}")
        if not isinstance(value, dict):
            raise UserError(f"{origin.of(path)}: {dotted} is a table: put [{dotted}] above its keys")
        _refuse_unknown(value, valid_keys, origin, path)


def _unknown_key(dotted: str, valid_keys: _Keys) -> str:
    return _unknown("key", dotted, [key.dotted for key in valid_keys.values()])


def _unknown(what: str, name: str, valid: Sequence[str]) -> str:
    # First the same key in another table: difflib prefers another key in the same table.
    near = [key for key in valid if key.rpartition(".")[2] == name.rpartition(".")[2]]
    near = near or difflib.get_close_matches(name, valid, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else "docs/configuration.md lists all of them"
    return f"unknown {what} {name!r}: {hint}"


def _from_environment(
    valid_keys: _Keys, role: str, environment: Mapping[str, str]
) -> Iterator[tuple[Key, str, str]]:
    by_variable = {key.variable(role): key for key in valid_keys.values()}
    for variable, value in environment.items():
        if not variable.startswith(f"WATTPACK_{role.upper()}_"):
            continue
        if variable not in by_variable:
            raise UserError(_unknown("environment variable", variable, list(by_variable)))
        yield by_variable[variable], value, f"environment variable {variable}"


def _from_assignments(valid_keys: _Keys, assignments: Sequence[str]) -> Iterator[tuple[Key, str, str]]:
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise UserError(f"--set {assignment}: use KEY=VALUE, such as --set sampling.interval_seconds=5")
        key = valid_keys.get(tuple(name.strip().split(".")))
        if key is None:
            raise UserError(f"--set {assignment}: {_unknown_key(name, valid_keys)}")
        yield key, value.strip(), "--set"


def _put(tree: dict[str, Any], key: Key, text: str, where: str) -> None:
    try:
        value = text if key.type is str else msgspec.convert(text, key.type, strict=False)
    except msgspec.ValidationError:
        wanted = _KINDS.get(key.type, "tables, which only the file can hold")
        raise UserError(f"{where}: {key.dotted} must be {wanted}, not {text!r}") from None
    for table in key.path[:-1]:
        tree = tree.setdefault(table, {})
    tree[key.path[-1]] = value


_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
_EXPECTED = re.compile(r"Expected `(?P<kind>\w+)(?: \| null)?`(?P<rest>.*)")


def _explained(error: msgspec.ValidationError, tree: Mapping[str, Any], origin: _Origin) -> str:
    message, _, at = str(error).partition(" - at `$")
    path = tuple(at.strip("`.").split(".")) if at else ()
    if "[" in at:
        # msgspec does not name which of several tables it is.
        return f"{origin.of(path[:1])}: {'.'.join(path)}: {message[:1].lower()}{message[1:]}"
    value: Any = tree
    for part in path:
        value = value[part]
    if match := _EXPECTED.fullmatch(message):
        kind = {"bool": bool, "int": int, "float": float, "str": str}.get(match["kind"])
        rest = match["rest"].partition(", got ")[0].replace("matching regex", "that matches")
        wanted = (_KINDS[kind] if kind else match["kind"]) + rest
        return f"{origin.of(path)}: {'.'.join(path)} must be {wanted}, not {value!r}"
    return f"{origin.of(path)}: {'.'.join(path)}: {message}"

"""From a TOML file, the environment and flags to one checked configuration.

Later sources override earlier ones: defaults, file, environment, `--set`. The configuration classes define
all keys, so an error names the key, its line, and the nearest valid key.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from wattpack.config.explain import KINDS, Origin, explain, unknown
from wire.errors import UserError, os_reason

Config = TypeVar("Config", bound=msgspec.Struct)


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


def keys(config: type[msgspec.Struct], prefix: tuple[str, ...] = ()) -> Iterator[Key]:
    """All keys of a configuration class, in order of declaration."""
    hints = get_type_hints(config, include_extras=True)
    for entry in msgspec.structs.fields(config):
        hint = hints[entry.name]
        path = (*prefix, entry.name)
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


def load(
    config: type[Config], role: str, sources: Sources, check: Callable[[Config], None] | None = None
) -> Config:
    """Read, merge and check the settings of one role; raises `UserError` for the first error.

    `check` raises a `UserError` that begins with the key to change.
    """
    valid_keys = {key.path: key for key in keys(config)}
    text = _read(sources.file) if sources.file else ""
    tree = _merged(sources.base, _parse(text, sources.file))
    origin = Origin(sources.file, text)
    _refuse_unknown(tree, valid_keys, origin)
    for key, value, where in [
        *_from_environment(valid_keys, role, sources.environment),
        *_from_assignments(valid_keys, sources.assignments),
    ]:
        origin.overrides[key.path] = where
        _put(tree, key, value, where)
    try:
        loaded = msgspec.convert(tree, config)
        if check is not None:
            check(loaded)
    except (msgspec.ValidationError, UserError) as error:
        types = {path: key.type for path, key in valid_keys.items()}
        raise UserError(explain(error, tree, types, origin)) from None
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


def _refuse_unknown(
    tree: Mapping[str, Any], valid_keys: _Keys, origin: Origin, prefix: tuple[str, ...] = ()
) -> None:
    tables = {path[:depth] for path in valid_keys for depth in range(1, len(path))}
    for name, value in tree.items():
        path = (*prefix, name)
        dotted = ".".join(path)
        if path in valid_keys:
            continue
        if path not in tables:
            raise UserError(f"{origin.of(path)}: {_unknown_key(dotted, valid_keys)}")
        if not isinstance(value, dict):
            raise UserError(f"{origin.of(path)}: {dotted} is a table: put [{dotted}] above its keys")
        _refuse_unknown(value, valid_keys, origin, path)


def _unknown_key(dotted: str, valid_keys: _Keys) -> str:
    return unknown("key", dotted, [key.dotted for key in valid_keys.values()])


def _from_environment(
    valid_keys: _Keys, role: str, environment: Mapping[str, str]
) -> Iterator[tuple[Key, str, str]]:
    by_variable = {key.variable(role): key for key in valid_keys.values()}
    for variable, value in environment.items():
        if not variable.startswith(f"WATTPACK_{role.upper()}_"):
            continue
        if variable not in by_variable:
            raise UserError(unknown("environment variable", variable, list(by_variable)))
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
        wanted = KINDS.get(key.type, "tables, which only the file can hold")
        raise UserError(f"{where}: {key.dotted} must be {wanted}, not {text!r}") from None
    for table in key.path[:-1]:
        tree = tree.setdefault(table, {})
    tree[key.path[-1]] = value

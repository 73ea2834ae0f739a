"""A settings file: the tables of a core, and those that features add to it.

A core declares its tables as fields of a class derived from `Settings`. `add_tables` derives from it the
class of the whole file, with the tables of the features that are installed. Code of a feature finds its own
table by its type, so neither side knows the fields of the other.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar, cast

import msgspec
from msgspec import Meta


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of a settings file."""


AnySection = TypeVar("AnySection", bound=Section)


class Settings(Section, frozen=True):
    """A settings file."""

    added: ClassVar[Mapping[type[Section], str]] = {}
    """The key of each table that `add_tables` added, by its type."""

    def section(self, kind: type[AnySection]) -> AnySection:
        """The table of a feature; its defaults if the class of the file does not have it."""
        key = self.added.get(kind)
        return kind() if key is None else cast("AnySection", getattr(self, key))

    def with_section(self, table: Section) -> Self:
        """The same settings with another table of a feature."""
        return msgspec.structs.replace(self, **{self.added[type(table)]: table})

    def tables(self, kind: type[AnySection]) -> Mapping[str, AnySection]:
        """The tables of a feature that the user names; none if the class of the file does not have them."""
        key = self.added.get(kind)
        return {} if key is None else cast("Mapping[str, AnySection]", getattr(self, key))


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTables(Generic[AnySection]):
    """Tables of one type whose names the user chooses, such as `[nodes.web1]`."""

    kind: type[AnySection]
    description: str
    defaults: Callable[[], Mapping[str, AnySection]] = field(default=dict)


Tables = Mapping[str, type[Section] | NamedTables[Any]]
"""What a feature adds to a settings file, by key."""

File = TypeVar("File", bound=Settings)


def add_tables(
    core: type[File], tables: Tables, checks: Iterable[Callable[[File], None]] = (), *, name: str = ""
) -> type[File]:
    """The class of a settings file with further tables.

    The checks run when a file is read, after those of the core. A check raises `UserError` with a message
    that begins with the key to change.
    """
    checks = tuple(checks)

    def check(file: File) -> None:
        core_check = getattr(core, "__post_init__", None)
        if core_check is not None:
            core_check(file)
        for each in checks:
            each(file)

    kinds = {key: table if isinstance(table, type) else table.kind for key, table in tables.items()}
    made = msgspec.defstruct(
        name or core.__name__,
        [_field(key, table) for key, table in tables.items()],
        bases=(core,),
        namespace={
            "__post_init__": check,
            "__doc__": core.__doc__,
            "added": {**core.added, **{kind: key for key, kind in kinds.items()}},
        },
        module=core.__module__,
        frozen=True,
        forbid_unknown_fields=True,
        kw_only=True,
    )
    return cast("type[File]", made)


def _field(key: str, table: type[Section] | NamedTables[Any]) -> tuple[str, Any, Any]:
    if isinstance(table, type):
        return key, table, msgspec.field(default_factory=table)
    kind = Annotated[dict[str, table.kind], Meta(description=table.description)]  # type: ignore[name-defined]
    return key, kind, msgspec.field(default_factory=table.defaults)


def field_texts(kind: type) -> dict[str, str]:
    """The docstrings below the fields of a class, and below those that it inherits: their descriptions."""
    texts: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        texts |= _own_texts(each)
    return texts


@cache
def _own_texts(kind: type) -> dict[str, str]:
    try:
        [tree] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError, SyntaxError):
        return {}
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for each, text in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            match text:
                case ast.Expr(value=ast.Constant(value=str(doc))):
                    found[each.target.id] = " ".join(inspect.cleandoc(doc).split())
    return found

"""Values between the collector and its worker; of snapshots, only what changed is sent.

Values are pickled, arrays follow as they are in memory. No message is large, except for the arrays in it: a
step that pickles or unpickles holds the interpreter lock, copying arrays to or from the socket does not.
"""

import pickle
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import chain
from socket import MSG_WAITALL, socket
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from collector.snapshot.claims import Claims
from collector.snapshot.parts import SnapshotPart
from collector.snapshot.power_curves import PowerCurves
from collector.snapshot.tables import Nodes, Services, Snapshot, Tasks
from collector.snapshot.windows import TaskWindows

_COUNT, _SIZE = struct.Struct("<I"), struct.Struct("<Q")
_BUFFER_BYTES = 16_384
"""Smaller arrays are cheaper inside a message."""
_ITEMS_AT_ONCE = 2_000
"""Counting the items of items, such as the images of a node."""
_Known = dict[int, tuple[int, Callable[[], object]]]
"""Numbers of values by identity, with a reference that shows whether it is still the same value."""
_DIVIDED = (Nodes, Tasks, Services, PowerCurves, Claims, SnapshotPart)
"""What is sent attribute by attribute, since most attributes are those of the last snapshot."""


def send(connection: socket, message: object) -> None:
    """Send a message. Raise `OSError` if the other side is gone."""
    buffers: list[pickle.PickleBuffer] = []

    def is_inside(buffer: pickle.PickleBuffer) -> bool:
        if buffer.raw().nbytes >= _BUFFER_BYTES:
            buffers.append(buffer)
            return False
        return True

    content = pickle.dumps(message, protocol=5, buffer_callback=is_inside)
    frames = [memoryview(content), *(each.raw() for each in buffers)]
    sizes = b"".join(_SIZE.pack(each.nbytes) for each in frames)
    connection.sendall(_COUNT.pack(len(frames)) + sizes)
    for each in frames:
        connection.sendall(each)


def receive(connection: socket) -> Any:  # noqa: ANN401 - whatever was sent
    """Return the next message. Raise `EOFError` once the other side is gone."""
    (count,) = _COUNT.unpack(_read(connection, _COUNT.size))
    sizes = _read(connection, count * _SIZE.size)
    content, *buffers = [_read(connection, size) for (size,) in _SIZE.iter_unpack(sizes)]
    return pickle.loads(content, buffers=buffers)  # noqa: S301 - from a process of our own


def _read(connection: socket, size: int) -> memoryview:
    # Not cleared first, unlike a bytearray.
    view = np.empty(size, np.uint8).data
    done = 0
    while done < size:
        count = connection.recv_into(view[done:], size - done, MSG_WAITALL)
        if not count:
            raise EOFError
        done += count
    return view


class Held(NamedTuple):
    """A value that the worker has, by its number."""

    number: int


class Divided(NamedTuple):
    """An object by its attributes."""

    kind: type
    attributes: dict[str, Any]


class Piece(NamedTuple):
    """A part of a large value, which follows the parts before it."""

    number: int
    content: Any


class Keep(NamedTuple):
    """The numbers of the values that the next snapshot needs; all others are forgotten."""

    numbers: frozenset[int]


def pieces(value: Any) -> Iterator[Any]:  # noqa: ANN401 - any value
    """Yield a value in parts of its own type, each of which is pickled quickly."""
    if type(value) is not tuple and not isinstance(value, Mapping):
        yield value
        return
    kind, items = (dict, value.items()) if isinstance(value, Mapping) else (tuple, value)
    part, count = [], 0
    for each in items:
        inner = each[1] if kind is dict else each
        part.append(each)
        count += 1 if isinstance(inner, str) or not isinstance(inner, Collection) else 1 + len(inner)
        if count >= _ITEMS_AT_ONCE:
            yield kind(part)
            part, count = [], 0
    if part or not value:
        yield kind(part)


class Sender:
    """Sends snapshots; what the last one shares with the next is not sent again."""

    def __init__(self) -> None:
        self._held: _Known = {}
        self._before: _Known = {}
        self._next = 0

    def messages(self, snapshot: Snapshot) -> Iterator[object]:
        """Yield what must be sent first, and last the snapshot as `Held`, to send in its place."""
        # If this is interrupted, nothing counts as sent.
        self._before, self._held = self._held, {}
        try:
            yield from self._send(snapshot)
        except BaseException:
            self._held = {}
            raise
        self._before = {}
        yield Keep(frozenset(number for number, _ in self._held.values()))
        yield self._found(snapshot)

    def _found(self, value: object) -> Held:
        return Held(self._held[id(value)][0])

    def _send(self, value: object) -> Iterator[Piece]:
        known = self._held.get(id(value)) or self._before.get(id(value))
        is_new = known is None or known[1]() is not value
        if known is None or is_new:
            self._next += 1
            known = self._next, _reference(value)
        self._held[id(value)] = known
        attributes = _attributes(value)
        for each in attributes.values():
            yield from self._send(each)
        if isinstance(value, Snapshot):
            # Computed values are not sent, but shared by the same snapshots as here.
            yield from self._send_cache(value)
            attributes["_cache"] = value._cache  # noqa: SLF001
        if is_new and attributes:
            held = {name: self._found(each) for name, each in attributes.items()}
            yield Piece(known[0], Divided(type(value), held))
        elif is_new:
            yield from (Piece(known[0], each) for each in pieces(value))

    def _send_cache(self, snapshot: Snapshot) -> Iterator[Piece]:
        cache = snapshot._cache  # noqa: SLF001
        known = self._before.get(id(cache))
        if known is None or known[1]() is not cache:
            self._next += 1
            known = self._next, _reference(cache)
            yield Piece(known[0], {})
        self._held[id(cache)] = known


class Receiver:
    """The values that a `Sender` sent."""

    def __init__(self) -> None:
        self._values: dict[int, Any] = {}
        self._pieces: dict[int, list[Any]] = {}
        self._nodes: Nodes | None = None

    def take(self, message: Piece | Keep) -> None:
        if isinstance(message, Piece):
            self._pieces.setdefault(message.number, []).append(message.content)
        else:
            self._values = {number: self._values[number] for number in self._values.keys() & message.numbers}
            self._pieces = {number: self._pieces[number] for number in self._pieces.keys() & message.numbers}

    def get(self, held: Held) -> Any:  # noqa: ANN401 - any value
        if held.number not in self._values:
            self._values[held.number] = self._made(self._pieces.pop(held.number))
        return self._values[held.number]

    def _made(self, found: Sequence[Any]) -> Any:  # noqa: ANN401 - any value
        first = found[0]
        if not isinstance(first, Divided):
            if len(found) == 1:
                return first
            each = chain.from_iterable(part.items() if isinstance(first, dict) else part for part in found)
            return type(first)(each)
        attributes = {name: self.get(each) for name, each in first.attributes.items()}
        if first.kind is dict:
            return attributes
        if first.kind is TaskWindows:
            return TaskWindows(tuple(attributes.values())[1:], attributes["rows"])
        if first.kind is Snapshot:
            return Snapshot.restored(attributes)
        made: Any = object.__new__(first.kind)
        for name, value in attributes.items():
            object.__setattr__(made, name, value)
        if isinstance(made, Nodes):
            if self._nodes is not None:
                made.reuse_cached(self._nodes)
            self._nodes = made
        return made


def _reference(value: Any) -> Callable[[], object]:  # noqa: ANN401 - any value
    """Return what shows whether an object is still there; an array is not kept for this alone."""
    return ref(value) if isinstance(value, np.ndarray) else lambda: value


def _attributes(value: Any) -> dict[Any, Any]:  # noqa: ANN401 - any value
    """Return the attributes that are sent one by one; none if the value is sent as a whole."""
    if isinstance(value, TaskWindows):
        return value.columns()
    if isinstance(value, dict) and any(isinstance(each, type) for each in value):
        return dict(value)
    if isinstance(value, Snapshot):
        return value.stored()
    if not isinstance(value, _DIVIDED) or not is_dataclass(value):
        return {}
    return {each.name: getattr(value, each.name) for each in fields(value)}

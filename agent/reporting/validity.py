"""Make a report valid: leave out the parts that the collector would reject, so that the rest arrives. Pure.

Numbers and names come from other programs: a broken driver counts beyond 64 bits, the name of a cgroup is not
valid text. One invalid part must not cause the loss of the whole report.
"""

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from agent.sources.docker.models import OWN_LABELS
from wire.messages import (
    MAX_IMAGES,
    MAX_TEXT_LENGTH,
    Gap,
    Report,
    encode,
)

Part = TypeVar("Part", bound=msgspec.Struct)

_decoder = msgspec.json.Decoder(Report)
_MAX_LISTED_PARTS, _MAX_GAPS = 10, 256


def encode_valid(report: Report) -> tuple[bytes, tuple[str, ...]]:
    """Encode a report without its invalid parts; return it and the names of those parts."""
    try:
        body = encode(report)
        _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeError, OverflowError, ValueError):
        report, left_out = _without_invalid(report)
        return encode(report), left_out
    return body, ()


def without_labels(body: bytes) -> bytes | None:
    """An encoded report with the labels of Wattpack only; None if it has no others."""
    report = _decoder.decode(body)
    containers = tuple(
        msgspec.structs.replace(
            each, labels={key: value for key, value in each.labels.items() if key.startswith(OWN_LABELS)}
        )
        for each in report.containers
    )
    return (
        None
        if containers == report.containers
        else encode(msgspec.structs.replace(report, containers=containers))
    )


def _without_invalid(report: Report) -> tuple[Report, tuple[str, ...]]:
    left_out: list[str] = []

    def valid(parts: Iterable[Part], what: str) -> tuple[Part, ...]:
        repaired = (_repair(part, what, left_out) for part in parts)
        return tuple(part for part in repaired if part is not None)

    heartbeat = report.heartbeat
    if heartbeat is not None:
        heartbeat = msgspec.structs.replace(heartbeat, usage=valid(heartbeat.usage, "usage"))
        heartbeat = _repair(heartbeat, "heartbeat", left_out)
    containers = valid(report.containers, "container")
    state = None if report.state is None else _repair(report.state, "node", left_out)
    if state is not None:
        gaps = tuple(
            Gap("report", f"left out: {each}"[:MAX_TEXT_LENGTH]) for each in left_out[:_MAX_LISTED_PARTS]
        )
        state = msgspec.structs.replace(state, gaps=(*gaps, *state.gaps)[:_MAX_GAPS])
    return (
        msgspec.structs.replace(
            report,
            state=state,
            containers=containers,
            gone=tuple(each for each in report.gone if _is_valid(each, str)),
            events=valid(report.events, "event"),
            alerts=valid(report.alerts, "alert"),
            heartbeat=heartbeat,
            images=None
            if report.images is None
            else tuple(each for each in report.images if _is_valid(each, str))[:MAX_IMAGES],
        ),
        tuple(left_out),
    )


def _repair(part: Part, where: str, left_out: list[str]) -> Part | None:
    """The part without its invalid fields; None if a required field is invalid."""
    changes = {}
    for field in msgspec.structs.fields(part):
        name, value = f"{where}.{field.name}", getattr(part, field.name)
        if isinstance(value, msgspec.Struct):
            value = changes[field.name] = _repair(value, name, left_out)
        if _is_valid(value, field.type):
            continue
        left_out.append(name)
        if field.default is not msgspec.NODEFAULT:
            changes[field.name] = field.default
        elif field.default_factory is not msgspec.NODEFAULT:
            changes[field.name] = field.default_factory()
        else:
            return None
    return msgspec.structs.replace(part, **changes)


def _is_valid(value: object, kind: object) -> bool:
    try:
        msgspec.json.decode(msgspec.json.encode(value), type=kind)
    except (msgspec.MsgspecError, UnicodeError, OverflowError, ValueError):
        return False
    return True

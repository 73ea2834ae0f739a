"""Make a report valid: leave out the parts that the collector would reject, so that the rest arrives. Pure.

Numbers and names come from other programs: a broken driver counts beyond 64 bits, the name of a cgroup is not
valid text. One invalid part must not cause the loss of the whole report.
"""

from typing import Any, TypeVar

import msgspec

from agent.sources.docker.models import OWN_LABELS
from wire.messages import MAX_TEXT_LENGTH, Gap, Report, encode

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
    repaired = _repair(report, "", left_out) or report
    if repaired.state is not None:
        gaps = [Gap("report", f"left out: {each}"[:MAX_TEXT_LENGTH]) for each in left_out[:_MAX_LISTED_PARTS]]
        state = msgspec.structs.replace(repaired.state, gaps=(*gaps, *repaired.state.gaps)[:_MAX_GAPS])
        repaired = msgspec.structs.replace(repaired, state=state)
    return repaired, tuple(left_out)


def _repair(part: Part, where: str, left_out: list[str]) -> Part | None:
    """The part without its invalid fields; None if a required field is invalid."""
    changes: dict[str, Any] = {}
    for field in msgspec.structs.fields(part):
        name, value = f"{where}{field.name}", getattr(part, field.name)
        if isinstance(value, msgspec.Struct):
            value = changes[field.name] = _repair(value, f"{name}.", left_out)
        elif isinstance(value, tuple) and all(isinstance(each, str) for each in value):
            value = changes[field.name] = tuple(each for each in value if _is_valid(each, str))
        elif isinstance(value, tuple) and all(isinstance(each, msgspec.Struct) for each in value):
            repaired = (_repair(each, f"{name}.", left_out) for each in value)
            value = changes[field.name] = tuple(each for each in repaired if each is not None)
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

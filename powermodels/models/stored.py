"""Fitted models as JSON files: one line per model kind in `Stored`, decoded strictly."""

import os
from pathlib import Path

import msgspec

from powermodels.models.adaptive import AdaptiveModel
from powermodels.models.regression import CurveModel, LinearModel, TableModel
from wire.errors import UserError

Stored = LinearModel | TableModel | CurveModel | AdaptiveModel

_DECODER: msgspec.json.Decoder[Stored] = msgspec.json.Decoder(Stored)


def encode(model: Stored) -> bytes:
    """Encode a model as formatted JSON."""
    return msgspec.json.format(msgspec.json.encode(model)) + b"\n"


def decode(text: bytes | str) -> Stored:
    """Decode a model; raises `msgspec.MsgspecError`."""
    return _DECODER.decode(text)


def save(model: Stored, path: Path) -> None:
    """Write a model atomically."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_bytes(encode(model))
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise UserError(f"cannot write the model {path} ({error.strerror}): choose another path") from error


def load(path: Path) -> Stored:
    """Read a model."""
    try:
        return decode(path.read_bytes())
    except OSError as error:
        raise UserError(
            f"cannot read the model {path} ({error.strerror}): create one with 'wattpack power calibrate'"
        ) from error
    except msgspec.MsgspecError as error:
        raise UserError(
            f"{path} is not a valid model ({error}): create one with 'wattpack power calibrate'"
        ) from error

"""Fitted models as JSON files: one line per model kind in `Stored`, strict on the way in."""

import os
from pathlib import Path

import msgspec

from powermodels.models.adaptive import AdaptiveModel
from powermodels.models.regression import CurveModel, LinearModel
from powermodels.models.table import TableModel
from wire.errors import UserError

Stored = LinearModel | TableModel | CurveModel | AdaptiveModel

_DECODER: msgspec.json.Decoder[Stored] = msgspec.json.Decoder(Stored)


def encode(model: Stored) -> bytes:
    """A model as JSON for people and programs."""
    return msgspec.json.format(msgspec.json.encode(model)) + b"\n"


def decode(text: bytes | str) -> Stored:
    """A model out of its JSON; raises `msgspec.MsgspecError` where it is none."""
    return _DECODER.decode(text)


def save(model: Stored, path: Path) -> None:
    """Write a model; a reader sees the old one or the new one, never a part."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_bytes(encode(model))
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise UserError(
            f"{path}: the model cannot be written ({error.strerror}): choose another place"
        ) from error


def load(path: Path) -> Stored:
    """Read a model."""
    try:
        return decode(path.read_bytes())
    except OSError as error:
        raise UserError(
            f"{path}: the model cannot be read ({error.strerror}): fit one with 'wattpack calibrate'"
        ) from error
    except msgspec.MsgspecError as error:
        raise UserError(
            f"{path} holds no model of this version ({error}): fit one with 'wattpack calibrate'"
        ) from error

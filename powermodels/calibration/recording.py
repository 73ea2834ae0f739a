"""What was measured, as a file: JSON lines, the first of which says where and with what, then a sample each.

A recording in the CSV form that metered servers are published in (`powermodels.fit.recording`) can be fitted
just as well; it does not tell its machine, so it is taken to be of this one.
"""

from datetime import datetime
from pathlib import Path
from typing import Literal

import msgspec

from powermodels.fit.recording import read_recording as read_csv
from powermodels.models.fitted import ScopeName
from powermodels.models.samples import FitRequest, Kind, Sample
from wire.errors import UserError
from wire.resources import Quantities

_CSV = (".csv", ".csv.gz")


class Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Where a recording comes from."""

    version: Literal[1] = 1
    host: str
    """The machine's fingerprint."""
    meter: str
    """What the meter is, for people."""
    metered: ScopeName
    scaling: Quantities
    made: datetime


class Recorded(msgspec.Struct, frozen=True):
    """A recording that was read."""

    head: Head
    samples: tuple[Sample, ...]

    def request(self, kind: Kind) -> FitRequest:
        """What to ask of a fit."""
        return FitRequest(
            samples=self.samples,
            kind=kind,
            host=self.head.host,
            scaling=self.head.scaling,
            metered=self.head.metered,
        )


def write_recording(path: Path, recorded: Recorded) -> None:
    """Keep a recording."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.Encoder().encode_lines([recorded.head, *recorded.samples]))
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror}): choose another place") from error


def read_recording(path: Path, host: str, now: datetime) -> Recorded:
    """Read either form; `host` is what a recording without a machine is taken to be of."""
    if path.name.endswith(_CSV):
        csv = read_csv(path)
        head = Head(host=host, meter=path.name, metered="NODE", scaling=csv.scaling, made=now)
        return Recorded(head, csv.samples)
    try:
        first, *rest = path.read_bytes().splitlines()
        samples = tuple(msgspec.json.decode(line, type=Sample) for line in rest)
        return Recorded(msgspec.json.decode(first, type=Head), samples)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): give a recording") from error
    except (ValueError, msgspec.MsgspecError) as error:
        raise UserError(
            f"{path} is no recording ({error}): give one of 'wattpack calibrate', or a .csv file"
        ) from error

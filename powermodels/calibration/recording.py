"""Recordings of a calibration as files: JSON lines, a header and then one line per sample.

A recording in CSV, the format of published measurements (`powermodels.fit.recording`), can be fitted as well.
It does not identify its machine.
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

UNKNOWN_HOST = "unknown"
"""Instead of the fingerprint of a machine."""
_CSV = (".csv", ".csv.gz")


class RecordingHeader(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """Origin of a recording."""

    version: Literal[1] = 1
    host: str
    """Fingerprint of the machine."""
    meter: str
    """Description of the meter."""
    metered: ScopeName
    scaling: Quantities
    made: datetime


class CalibrationRecording(msgspec.Struct, frozen=True):
    """A recording: its header and its samples."""

    head: RecordingHeader
    samples: tuple[Sample, ...]

    def of_host(self, host: str) -> "CalibrationRecording":
        """The same recording, of this machine."""
        return msgspec.structs.replace(self, head=msgspec.structs.replace(self.head, host=host))

    def request(self, kind: Kind) -> FitRequest:
        return FitRequest(
            samples=self.samples,
            kind=kind,
            host=self.head.host,
            scaling=self.head.scaling,
            metered=self.head.metered,
        )


def write_recording(path: Path, recording: CalibrationRecording) -> None:
    """Write a recording to a file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.Encoder().encode_lines([recording.head, *recording.samples]))
    except OSError as error:
        raise UserError(f"cannot write {path} ({error.strerror}): choose another path") from error


def read_recording(path: Path, now: datetime) -> CalibrationRecording:
    """Read a recording in either format; a CSV file has `UNKNOWN_HOST`."""
    if path.name.endswith(_CSV):
        csv = read_csv(path)
        head = RecordingHeader(
            host=UNKNOWN_HOST, meter=path.name, metered="NODE", scaling=csv.scaling, made=now
        )
        return CalibrationRecording(head, csv.samples)
    try:
        first, *rest = path.read_bytes().splitlines()
        samples = tuple(msgspec.json.decode(line, type=Sample) for line in rest)
        return CalibrationRecording(msgspec.json.decode(first, type=RecordingHeader), samples)
    except OSError as error:
        raise UserError(f"cannot read {path} ({error.strerror}): check the path of the recording") from error
    except (ValueError, msgspec.MsgspecError) as error:
        raise UserError(
            f"{path} is not a recording ({error}): use one of 'wattpack power calibrate', or a .csv file"
        ) from error

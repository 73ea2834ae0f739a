"""`python -m powermodels.fit [FILE]`: one fit in its own process.

In: a `FitRequest` as JSON on stdin, or in FILE; a FILE that ends in .csv or .csv.gz is a recording (see
`powermodels.fit.recording`), which `--kind` and `--host` complete. Out: the model's JSON on stdout,
for `powermodels.models.stored.decode`. Status 0; 2 with one sentence on stderr if the samples cannot be
fitted. It opens no socket and no other file. The caller limits its memory (200 MB resident are enough) and
its time (a few seconds), sets OMP_NUM_THREADS=1, and may kill it at any time.

    child = subprocess.run([sys.executable, "-m", "powermodels.fit"],
                           input=msgspec.json.encode(tracker.request()), ...)
    tracker.offer(stored.decode(child.stdout))
"""

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import msgspec

from powermodels.fit.fitting import fit
from powermodels.fit.recording import read_recording
from powermodels.models.samples import FitRequest, Kind
from powermodels.models.stored import encode
from wire.errors import UserError


def main(argv: Sequence[str] | None = None) -> int:
    """Fit once; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m powermodels.fit", description="Fit one power model.")
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="a request or a recording")
    parser.add_argument(
        "--kind", choices=get_args(Kind), default="curve", help="kind of model for a recording"
    )
    parser.add_argument("--host", default="", help="fingerprint of the machine of a recording")
    arguments = parser.parse_args(argv)
    try:
        sys.stdout.buffer.write(encode(fit(_request(arguments), datetime.now(UTC))))
    except UserError as error:
        print(f"fit: {error}", file=sys.stderr)
        return 2
    return 0


def _request(arguments: argparse.Namespace) -> FitRequest:
    path: Path | None = arguments.file
    if path is not None and path.name.endswith((".csv", ".csv.gz")):
        recording = read_recording(path)
        return FitRequest(
            samples=recording.samples, kind=arguments.kind, host=arguments.host, scaling=recording.scaling
        )
    try:
        data = sys.stdin.buffer.read() if path is None else path.read_bytes()
        return msgspec.json.decode(data, type=FitRequest)
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror}): check its path and permissions"
        ) from error
    except msgspec.MsgspecError as error:
        raise UserError(
            f"this is not a request for a fit ({error}): give one as JSON, or a .csv file"
        ) from error


if __name__ == "__main__":
    sys.exit(main())

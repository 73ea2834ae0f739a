"""`python -m powermodels.fit`: one fit in its own process.

In: a `FitRequest` as JSON on stdin. Out: the model's JSON on stdout, for `powermodels.models.stored.decode`.
Status 0; 2 with one sentence on stderr if the samples cannot be fitted. It opens no socket and no other file.
The caller limits its memory (200 MB resident are enough) and its time (a few seconds), sets
OMP_NUM_THREADS=1, and may kill it at any time.
"""

import sys
from datetime import UTC, datetime

import msgspec

from powermodels.fit.fitting import fit
from powermodels.models.samples import FitRequest
from powermodels.models.stored import encode
from wire.errors import UserError


def main() -> int:
    """Fit once; returns the exit status."""
    try:
        request = msgspec.json.decode(sys.stdin.buffer.read(), type=FitRequest)
        sys.stdout.buffer.write(encode(fit(request, datetime.now(UTC))))
    except (UserError, msgspec.MsgspecError) as error:
        print(f"fit: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs inside a machine, with its Python: records the figures of Wattpack next to those of the kernel.

    python3 watch.py CONTAINER_ID SAMPLES OUTPUT

It takes a reading whenever the agent has taken a new sample, so that both are of the same moment.
"""

import json
import re
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

AGENT = "http://127.0.0.1:9640/metrics"
COLLECTOR = "http://127.0.0.1:8640/v1/containers"
POLL_SECONDS = 0.05


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as response:  # noqa: S310 - one of the two above
        text: str = response.read().decode()
        return text


def field(text: str, name: str) -> int:
    found = re.search(rf"\b{name}[ =](\d+)", text)
    assert found is not None, f"no {name} in {text!r}"
    return int(found[1])


def kernel(group: Path) -> dict[str, float]:
    def read(name: str) -> str:
        return (group / name).read_text(encoding="ascii")

    return {
        "monotonic_seconds": time.monotonic(),
        "cpu_seconds": field(read("cpu.stat"), "usage_usec") / 1e6,
        "stalled_seconds": field(read("cpu.pressure"), "total") / 1e6,
        "memory_bytes": int(read("memory.current")),
        "inactive_file_bytes": field(read("memory.stat"), "inactive_file"),
    }


def sample_count(metrics: str) -> int:
    return field(metrics, "wattpack_agent_samples_total")


def watch(group: Path, samples: int) -> Iterator[dict[str, Any]]:
    count = sample_count(get(AGENT))
    while samples:
        time.sleep(POLL_SECONDS)
        metrics = get(AGENT)
        now = kernel(group)
        if sample_count(metrics) > count:
            count = sample_count(metrics)
            samples -= 1
            yield {"kernel": now, "metrics": metrics}


def main() -> None:
    identifier, samples, output = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    (group,) = Path("/sys/fs/cgroup").glob(f"**/docker-{identifier}.scope")
    readings = list(watch(group, samples))
    # Wait until the last report is delivered; the next one is seconds later.
    time.sleep(0.5)
    containers = json.loads(get(COLLECTOR))["containers"]
    output.write_text(json.dumps({"readings": readings, "containers": containers}), encoding="utf-8")


if __name__ == "__main__":
    main()

"""A real VictoriaMetrics: a store that accepts Prometheus' remote write and evaluates PromQL."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.lab.parts import require
from tests.lab.reaper import Reaper
from tests.lab.serving import serving
from tests.lab.stores.promql import PromQLServer


@dataclass(frozen=True, slots=True)
class VictoriaMetrics(PromQLServer):
    """A running VictoriaMetrics."""

    @property
    def remote_write_url(self) -> str:
        """The address for remote write."""
        return f"{self.url}/api/v1/write"

    def import_prometheus(self, exposition: str) -> None:
        """Import samples in the format of a scrape, with or without timestamps in milliseconds.

        They can be queried at once, except those of the current second, which this store never returns.
        """
        self.request("POST", "/api/v1/import/prometheus", exposition.encode())
        self.flush()

    def flush(self) -> None:
        """Make all imported samples visible at once instead of after some seconds."""
        self.request("GET", "/internal/force_flush")


@contextmanager
def victoria_metrics(data: Path | None = None, address: str = "127.0.0.1:0") -> Iterator[VictoriaMetrics]:
    """Start an empty store, or restart the one with this data folder and address."""
    require("victoria-metrics")
    with Reaper() as reaper:
        root = reaper.make_directory("victoria")
        command = [
            "victoria-metrics",
            f"-storageDataPath={data or root / 'data'}",
            f"-httpListenAddr={address}",
            "-loggerLevel=WARN",
            "-retentionPeriod=100y",  # recorded traces are years old
            "-memory.allowedBytes=256MB",  # by default, caches may use most of the machine
            # By default, the last 30 s are not returned, and responses are cached.
            "-search.latencyOffset=0s",
            "-search.disableCache",
        ]
        with serving(reaper, command, root / "log", "/health") as server:
            yield VictoriaMetrics(server.pid, server.host)

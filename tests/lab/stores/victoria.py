"""A real VictoriaMetrics: a store that takes Prometheus' remote write and answers PromQL."""

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
        """Where a Prometheus, or anything that speaks as one, sends what it has."""
        return f"{self.url}/api/v1/write"

    def import_prometheus(self, exposition: str) -> None:
        """Put in samples written as a scrape is, with or without timestamps in milliseconds.

        They can be queried at once, except those of the current second, which this store never shows.
        """
        self.request("POST", "/api/v1/import/prometheus", exposition.encode())
        self.show_all()

    def show_all(self) -> None:
        """Make everything that was put in visible at once, not only after some seconds."""
        self.request("GET", "/internal/force_flush")


@contextmanager
def victoria_metrics(data: Path | None = None, address: str = "127.0.0.1:0") -> Iterator[VictoriaMetrics]:
    """Start a store: an empty one, or again the one that kept its data in a folder, where it listened."""
    require("victoria-metrics")
    with Reaper() as reaper:
        root = reaper.make_directory("victoria")
        command = [
            "victoria-metrics",
            f"-storageDataPath={data or root / 'data'}",
            f"-httpListenAddr={address}",
            "-loggerLevel=WARN",
            "-retentionPeriod=100y",  # recorded traces are years old
            "-memory.allowedBytes=256MB",  # by default caches may take most of the machine
            # Show what is there now: by default the last 30 s are held back and answers are cached.
            "-search.latencyOffset=0s",
            "-search.disableCache",
        ]
        with serving(reaper, command, root / "log", "/health") as server:
            yield VictoriaMetrics(server.pid, server.host)

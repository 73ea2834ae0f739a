"""A real Prometheus that scrapes targets, stores samples for the test, and evaluates PromQL."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lab.parts import require
from tests.lab.reaper import Reaper
from tests.lab.serving import serving
from tests.lab.stores.promql import PromQLServer
from tests.lab.waiting import eventually


@dataclass(frozen=True, slots=True)
class Target:
    """One scrape target, and the result of its last scrape."""

    job: str
    url: str
    is_up: bool
    last_error: str


@dataclass(frozen=True, slots=True)
class Prometheus(PromQLServer):
    """A running Prometheus."""

    def targets(self) -> list[Target]:
        """Return the scrape targets."""
        active = self.get_json("/api/v1/targets")["data"]["activeTargets"]
        return [
            Target(
                target["labels"]["job"], target["scrapeUrl"], target["health"] == "up", target["lastError"]
            )
            for target in active
        ]

    def wait_until_up(self, job: str, timeout_seconds: float = 30.0) -> None:
        """Wait until the job was scraped and its samples can be queried."""

        def up() -> bool:
            seen = self.query(f"up{{job={json.dumps(job)}}} == 1")
            assert seen, f"{job} is not up: {[target for target in self.targets() if target.job == job]}"
            return True

        eventually(up, timeout_seconds)


@contextmanager
def prometheus(  # noqa: PLR0913 - the options of Prometheus that tests use
    scrape: Mapping[str, str],
    *,
    interval: str = "1s",
    job_settings: Mapping[str, Any] | None = None,
    rules: Mapping[str, Any] | None = None,
    remote_write: str | None = None,
    data: Path | None = None,
    address: str = "127.0.0.1:0",
) -> Iterator[Prometheus]:
    """Start a Prometheus that scrapes each job at its "host:port", for the first time after about 5 seconds.

    `job_settings` are added to every job (credentials, TLS); `rules` is the content of a rule file; all
    samples are also sent to `remote_write`. `data` and `address` of an
    earlier Prometheus restart it.
    """
    require("prometheus")
    jobs = [
        {"job_name": job, "static_configs": [{"targets": [target]}], **(job_settings or {})}
        for job, target in scrape.items()
    ]
    config: dict[str, Any] = {
        "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
        "scrape_configs": jobs,
    }
    with Reaper() as reaper:
        root = reaper.make_directory("prometheus")
        if rules is not None:
            config["rule_files"] = [_write(root / "rules.yml", rules)]
        if remote_write is not None:
            # A batch is sent when it is full or this old; the default is 5 s.
            config["remote_write"] = [
                {"url": remote_write, "queue_config": {"batch_send_deadline": "200ms"}},
            ]
        command = [
            "prometheus",
            f"--config.file={_write(root / 'prometheus.yml', config)}",
            f"--storage.tsdb.path={data or root / 'data'}",
            f"--web.listen-address={address}",
        ]
        with serving(reaper, command, root / "log", "/-/ready") as server:
            yield Prometheus(server.pid, server.host)


def promtool_check_metrics(exposition: str) -> str:
    """Return the output of `promtool check metrics` for a scrape; empty if it is valid."""
    status, output = _promtool("check", "metrics", given=exposition)
    return output if output or status == 0 else f"promtool ended with status {status}"


def promtool_check_web_config(file: Path) -> str:
    """Return the errors of `promtool check web-config` for a file; empty if it is valid."""
    status, output = _promtool("check", "web-config", str(file))
    return output if status else ""


def promtool(*arguments: str) -> str:
    """Run promtool, which must succeed."""
    status, output = _promtool(*arguments)
    assert status == 0, output
    return output


def _promtool(*arguments: str, given: str = "") -> tuple[int, str]:
    require("prometheus")
    done = subprocess.run(
        ["promtool", *arguments], input=given, capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


def _write(path: Path, content: Mapping[str, Any]) -> str:
    path.write_text(json.dumps(content))  # JSON is YAML too
    return str(path)

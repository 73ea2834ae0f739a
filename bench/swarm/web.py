"""A web service with two replicas, under load while one of them is moved."""

import threading
import urllib.request

from bench.common.results import Figure
from bench.swarm.cluster import Cluster, Collector, until
from tests.lab.engines.image import BURN

_PORT = 8099
_TIMEOUT_SECONDS = 75.0
_SERVE = f"mkdir /w && echo hello >/w/index.html; (while :; do :; done) & exec httpd -f -p {_PORT} -h /w"
_CHECKED = (
    f"--health-cmd=wget -q -O /dev/null http://127.0.0.1:{_PORT}/",
    *("--health-interval=500ms", "--health-timeout=5s", "--health-retries=10"),
)


class WebLoad(threading.Thread):
    """Sends requests to the running replicas that Swarm wants to run, as its own load balancer does."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(daemon=True)
        self._cluster, self._stopped = cluster, threading.Event()
        self.answered = 0
        self.failed: list[str] = []

    def run(self) -> None:
        while not self._stopped.is_set():
            for task in self._cluster.running("web"):
                address = self._cluster.swarm.node(str(task.node)).address
                try:
                    with urllib.request.urlopen(f"http://{address}:{_PORT}/", timeout=10):
                        self.answered += 1
                except OSError as error:
                    self.failed.append(f"{task.node}: {error}")

    def end(self) -> None:
        """Stop after the last response."""
        self._stopped.set()
        self.join()


def web(cluster: Cluster, _collector: Collector) -> list[Figure]:
    """Let another service fill node 2, so that its replica is moved."""
    manager = cluster.swarm.manager
    manager.docker("node", "update", "--availability=pause", "node3")
    extra = (*_CHECKED, "--replicas-max-per-node=1", "--limit-cpu=0.2")
    cluster.swarm.create_service("web", "sh", "-c", _SERVE, replicas=2, extra=extra)
    until(lambda: cluster.places("web") == ["node1", "node2"], _TIMEOUT_SECONDS)
    manager.docker("node", "update", "--availability=active", "node3")
    load = WebLoad(cluster)
    load.start()
    cluster.service("steady", *BURN, on="node2", extra=("--limit-cpu=0.15",))
    moved, seconds = until(lambda: cluster.places("web") == ["node1", "node3"], _TIMEOUT_SECONDS)
    answered = load.answered
    until(lambda: load.answered > answered + 20, _TIMEOUT_SECONDS)
    load.end()
    for failure in load.failed[:5]:
        print(failure)
    return [
        Figure(
            name="web_moved", value=seconds if moved else None, unit="s after node 2 was full", at_most=60
        ),
        Figure(name="web_answered", value=load.answered, unit="requests", at_least=50),
        Figure(name="web_failed", value=len(load.failed), unit="requests", at_most=0),
    ]

"""An earlier recording, reported before the run begins, as if the collector had been running."""

from collections.abc import Sequence

import numpy as np

from collector.observe.bucket_ring import BUCKETS
from collector.observe.windows import BUCKET_SECONDS
from collector.snapshot.columns import sum_by_node
from replay.setup.hosts import Hosts
from replay.setup.workload import Workload
from replay.simulation.agents.agents import HostLoad, SimulatedAgents
from replay.simulation.agents.settings import AgentSettings
from replay.simulation.clock import unix
from replay.simulation.collector import SimulatedCollector

_DAY_SECONDS = 86_400.0
_SILENT_SECONDS = BUCKETS * BUCKET_SECONDS
"""Time between the recording and the run, after which all windows are empty."""


def report_earlier(
    collector: SimulatedCollector, hosts: Hosts, earlier: Workload, settings: AgentSettings, start: float
) -> None:
    """Let agents report the last day of a recording, with its containers distributed over all hosts."""
    agents = SimulatedAgents(hosts, earlier, settings, boot="earlier")
    node = np.arange(earlier.size) % hosts.size
    ends = earlier.arrival_seconds + earlier.lifetime_seconds
    shift = start - earlier.duration_seconds - _SILENT_SECONDS
    times = _last_day(earlier, settings.sample_seconds)
    for host in range(hosts.size):
        begin = unix(times[0] + shift) - settings.sample_seconds
        first = agents.boot(host, begin)
        collector.receive([] if first is None else [first], begin)
    started = np.zeros(earlier.size, dtype=np.bool_)
    for seconds in times:
        running = np.flatnonzero((earlier.arrival_seconds <= seconds) & (seconds < ends))
        now = unix(seconds + shift)
        for row in running[~started[running]].tolist():
            agents.containers.start(row, now)
        started[running] = True
        used = earlier.use.at(seconds, running, earlier.arrival_seconds[running])
        by_node = np.fmin(sum_by_node(node[running], used, hosts.size), hosts.capacity)
        collector.receive(
            agents.sample(now, HostLoad(running=running, node=node[running], used=used, by_node=by_node)), now
        )
        collector.run_due_jobs(now)


def _last_day(earlier: Workload, step_seconds: float) -> Sequence[float]:
    first = max(0.0, earlier.duration_seconds - _DAY_SECONDS)
    times: list[float] = np.arange(first, earlier.duration_seconds, step_seconds).tolist()
    return times

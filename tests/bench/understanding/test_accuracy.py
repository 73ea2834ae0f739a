import io
import time

from bench.common.bitbrains import SLOT_SECONDS, Machine
from bench.common.progress import Progress
from bench.understanding.accuracy import measure
from bench.understanding.cluster import ReportedCluster
from wire.messages import parse_batch
from wire.resources import Quantities

HOURS = 1


def machine(name: str, *levels: tuple[float, float, float, float]) -> Machine:
    slots = HOURS * 3600 // SLOT_SECONDS
    return Machine(
        name, Quantities(2.0, 8_000_000_000), tuple(levels[at * len(levels) // slots] for at in range(slots))
    )


def test_envelopes_of_steady_jumping_and_idle_machines_equal_those_of_numpy() -> None:
    machines = [
        machine("steady", (0.5, 1e9, 1e6, 1e5)),
        machine("jumps", (0.1, 5e8, 0.0, 1e3), (1.9, 6e9, 1e8, 1e7)),
        machine("idle", (0.0, 1e6, 0.0, 0.0)),
    ]
    truth = measure(machines, HOURS, Progress(io.StringIO()))
    assert truth.values == 3 * 4 * 5
    assert truth.worst_bins <= 1
    assert truth.missing == 0


def test_a_cluster_reports_a_whole_day_and_then_changes() -> None:
    now = time.time()
    cluster = ReportedCluster(nodes=2, containers=5)
    reports = [parse_batch(body)[0] for body in cluster.heartbeats(now)]
    assert [report.node for report in reports] == 3 * cluster.names
    assert reports[0].at == now - 16 * 3600
    assert all(report.heartbeat is not None and len(report.heartbeat.usage) == 5 for report in reports)
    (news,) = parse_batch(cluster.news(now))
    assert news.node in cluster.names
    assert news.heartbeat is None
    assert {each.id for each in news.containers} <= {
        each.id for report in reports for each in report.containers
    }

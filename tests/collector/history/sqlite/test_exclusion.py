"""Answers without nodes that do not count."""

from collector.history.interface import GroupBy
from collector.history.sqlite.energy import read_energy
from collector.history.sqlite.exclusion import exclude
from collector.history.sqlite.files.connection import IN_MEMORY, open_for_writing

HOUR = 3600


def test_energy_of_a_day_reads_no_other_days_also_if_a_node_is_left_out() -> None:
    history = open_for_writing(IN_MEMORY)
    history.execute("INSERT INTO nodes (id, name, last_used_at) VALUES (1, 'node', 0), (2, 'mallory', 0)")
    history.executemany(
        "INSERT INTO node_rollups (step, bucket, node_id, seconds, joules, idle_joules, containers_joules,"
        " covered_from, covered_until)"
        " VALUES (?, ?, ?, ?, 1.0, 0.5, 0.5, ?, ?)",
        ((HOUR, hour, node, HOUR, hour * HOUR, (hour + 1) * HOUR) for hour in range(5000) for node in (1, 2)),
    )
    exclude(history, ["mallory"])
    thousands = []
    history.set_progress_handler(lambda: thousands.append(1), 1000)
    (account,) = read_energy(history, 0, 24 * HOUR, GroupBy.NODE, None)
    history.set_progress_handler(None, 0)
    history.close()
    assert account.joules == 24.0
    assert len(thousands) < 10

"""The tables of the SQLite history.

Reports arrive and expire all the time, so what a report holds is clustered by arrival (`report_id` only
grows): writes append to the last pages, retention empties the first ones, and a window of time is one
contiguous range, however many nodes there are. What rarely changes (names, images, limits, gaps) is stored
once and referenced by a small number.

- `reports`: one row per report, beacons included; `heartbeat` is null if it was none. The unique index on
  `(boot_id, sequence)` detects repeated deliveries. `size` is about how many bytes the report and its samples
  take.
- `container_samples`: a null `facts_id` means that the container no longer exists.
- `alerts`: the last state of each alert.
- `usage`: the merged usage histograms of a node's containers, per bucket of time. The registry merges them;
  what a heartbeat adds is in `pending_usage` until the registry stores a total that includes it.
- `node_rollups`, `container_rollups`: sums per bucket, in steps of five minutes and of an hour, clustered by
  time. They outlive the samples. `covered_from` and `covered_until` limit the time in a bucket that its
  energy was used in. `rollup_progress` is the last heartbeat of each node that they include. Pressure is in
  whole milliseconds and millionths: SQLite stores whole numbers in few bytes, and zero, the most frequent, in
  none.
- `boots`: kept for as long as the rollups of their nodes, so that a report that arrives again after its
  retention belongs to a boot that is known to be rolled up.
- `containers`: the last facts of each container, and its energy counter when it ended, for as long as a
  rollup refers to it.
- `key_values`: values that other parts of the collector store, by kind and key.
- `counts`: the number of rows of each table, and of commits, so that after damage it is known what is lost.

`last_used_at` is a lower bound for the last use of a row, so it can expire without a search for references.
Ids of boots and containers are never reused, as alerts and usage may outlive the rows that they refer to.
"""

from collections.abc import Sequence

VERSION = 2

SAMPLE_VALUES = (
    *("cpu_cores", "memory_bytes", "disk_bytes_per_second", "network_bytes_per_second", "watts"),
    *("cpu_pressure_ratio", "memory_pressure_ratio", "disk_pressure_ratio"),
)
"""The values of a sample that are rolled up."""
ROLLUP_SUMS = (
    *("cpu_core_seconds", "memory_byte_seconds", "disk_bytes", "network_bytes", "watt_seconds"),
    *("cpu_waiting_milliseconds", "memory_waiting_milliseconds", "disk_waiting_milliseconds"),
)
ROLLUP_MAXIMA = (
    *("max_cpu_cores", "max_memory_bytes"),
    *("max_disk_bytes_per_second", "max_network_bytes_per_second", "max_watts"),
    *("max_cpu_pressure_ppm", "max_memory_pressure_ppm", "max_disk_pressure_ppm"),
)
ROLLUP_VALUES = ("seconds", *ROLLUP_SUMS, *ROLLUP_MAXIMA)
NODE_JOULES = ("joules", "idle_joules", "containers_joules")
COVERED = ("covered_from", "covered_until")
"""The time that the energy of a node in a bucket, and that of its containers, is spread over."""
CONTAINER_JOULES = ("joules",)

GET_VALUE = "SELECT value FROM key_values WHERE kind = ? AND key = ?"
SET_VALUE = """
INSERT INTO key_values (kind, key, value, checksum) VALUES (?1, ?2, ?3, row_checksum(?1, ?2, ?3))
ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value, checksum = excluded.checksum
"""
NEXT_COMMIT = "UPDATE counts SET rows = rows + 1 WHERE name = 'commits'"
DETAIL_FROM = ("rollups", "detail_from")
"""Kind and key of the time from which the five-minute rollups of every hour are complete; without it, all."""

_ROLLUP_COLUMNS = ", ".join(f"{name} REAL" for name in ROLLUP_VALUES)


def _sum(columns: Sequence[str]) -> str:
    """An expression for the checksum of sums, which change often: faster than a function."""
    primes = (3, 7, 31, 127, 8191)
    terms = (
        f"CAST(coalesce({name}, -1) * 1000 AS INTEGER) % 1000003 * {primes[place % 5] + place}"
        for place, name in enumerate(columns)
    )
    return " + ".join(terms)


_SUMS = {
    "node_rollups": _sum(["step", "bucket", "node_id", *ROLLUP_VALUES, *NODE_JOULES, *COVERED]),
    "container_rollups": _sum(["step", "bucket", "container_id", *ROLLUP_VALUES, *CONTAINER_JOULES]),
}
ACCOUNTS = tuple(_SUMS)
"""The tables of energy accounts. SQLite stores the checksum with every change of a row."""
_GENERATED = {
    table: f"checksum INTEGER GENERATED ALWAYS AS ({expression}) STORED"
    for table, expression in _SUMS.items()
}
CHECKED = {
    "nodes": "row_checksum(name)",
    "boots": "row_checksum(node_id, name)",
    "facts": "row_checksum(body)",
    "containers": "row_checksum(node_id, runtime_id, facts_id, ended_joules_total)",
    "alerts": "row_checksum(boot_id, resource, opened_at, sequence, received_at, closed_at, body)",
    "usage": "row_checksum(node_id, bucket, body)",
    "pending_usage": "row_checksum(node_id, boot, sequence, bucket, body)",
    "rollup_progress": "row_checksum(node_id, boot_id, sequence)",
    "key_values": "row_checksum(kind, key, value)",
    **_SUMS,
}
"""What the checksum of a row must be, by table. That of a report is computed from several tables."""
COUNTED = ("reports", *CHECKED)
"""The tables whose rows are counted, parents first. Samples and events are parts of reports."""
_COUNTS = "\n".join(
    f"""
INSERT INTO counts VALUES ('{table}', 0);
CREATE TRIGGER {table}_added AFTER INSERT ON {table}
BEGIN UPDATE counts SET rows = rows + 1 WHERE name = '{table}'; END;
CREATE TRIGGER {table}_deleted AFTER DELETE ON {table}
BEGIN UPDATE counts SET rows = rows - 1 WHERE name = '{table}'; END;
"""  # noqa: S608 - names of our own
    for table in COUNTED
)

TABLES = f"""
CREATE TABLE nodes (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, last_used_at REAL NOT NULL,
    checksum INTEGER,
    UNIQUE (name)
);
CREATE TABLE boots (
    id INTEGER PRIMARY KEY AUTOINCREMENT, node_id INTEGER NOT NULL, name TEXT NOT NULL,
    last_used_at REAL NOT NULL, checksum INTEGER,
    UNIQUE (node_id, name)
);
CREATE TABLE containers (
    id INTEGER PRIMARY KEY AUTOINCREMENT, node_id INTEGER NOT NULL, runtime_id TEXT NOT NULL,
    last_used_at REAL NOT NULL, facts_id INTEGER, ended_joules_total REAL,
    checksum INTEGER,
    UNIQUE (node_id, runtime_id)
);
CREATE INDEX containers_runtime_id ON containers (runtime_id);
CREATE INDEX containers_facts_id ON containers (facts_id);
CREATE TABLE facts (
    id INTEGER PRIMARY KEY, body TEXT NOT NULL, last_used_at REAL NOT NULL,
    checksum INTEGER,
    UNIQUE (body)
);
CREATE INDEX facts_service ON facts (json_extract(body, '$.service'));
CREATE TABLE reports (
    id INTEGER PRIMARY KEY,
    boot_id INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    received_at REAL NOT NULL,
    at REAL NOT NULL,
    heartbeat TEXT,
    size INTEGER NOT NULL,
    checksum INTEGER,
    UNIQUE (boot_id, sequence)
);
CREATE INDEX reports_received_at ON reports (received_at);
CREATE INDEX reports_heartbeats ON reports (boot_id, sequence, at) WHERE heartbeat IS NOT NULL;
CREATE TABLE node_samples (
    report_id INTEGER PRIMARY KEY,
    facts_id INTEGER NOT NULL,
    window_seconds REAL NOT NULL,
    cpu_cores REAL, memory_bytes INTEGER, disk_bytes_per_second REAL, network_bytes_per_second REAL,
    cpu_pressure_ratio REAL, memory_pressure_ratio REAL, disk_pressure_ratio REAL,
    watts REAL, idle_watts REAL, system_watts REAL, error_ratio REAL, joules_total REAL,
    load_1m REAL, frequency_hertz REAL, iowait_ratio REAL, steal_ratio REAL, swap_used_bytes INTEGER,
    disk_busy_ratio REAL, oom_kills_total INTEGER
);
CREATE TABLE container_samples (
    report_id INTEGER NOT NULL,
    container_id INTEGER NOT NULL,
    facts_id INTEGER,
    window_seconds REAL,
    cpu_seconds_total REAL,
    cpu_cores REAL, memory_bytes INTEGER, disk_bytes_per_second REAL, network_bytes_per_second REAL,
    cpu_pressure_ratio REAL, memory_pressure_ratio REAL, disk_pressure_ratio REAL,
    watts REAL, error_ratio REAL, joules_total REAL, idle_watts REAL,
    cpu_throttled_seconds_total REAL, oom_kills_total INTEGER,
    PRIMARY KEY (report_id, container_id)
) WITHOUT ROWID;
CREATE TABLE events (
    report_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at REAL NOT NULL,
    container_id INTEGER,
    joules_total REAL,
    body TEXT NOT NULL,
    PRIMARY KEY (report_id, number)
) WITHOUT ROWID;
CREATE INDEX events_at ON events (at);
CREATE TABLE alerts (
    boot_id INTEGER NOT NULL,
    resource TEXT NOT NULL,
    opened_at REAL NOT NULL,
    sequence INTEGER NOT NULL,
    received_at REAL NOT NULL,
    closed_at REAL,
    body TEXT NOT NULL,
    checksum INTEGER,
    PRIMARY KEY (boot_id, resource, opened_at)
) WITHOUT ROWID;
CREATE TABLE usage (
    node_id INTEGER NOT NULL,
    bucket INTEGER NOT NULL,
    body BLOB NOT NULL,
    checksum INTEGER,
    UNIQUE (node_id, bucket)
);
CREATE TABLE pending_usage (
    node_id INTEGER NOT NULL,
    boot TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    bucket INTEGER NOT NULL,
    body BLOB NOT NULL,
    checksum INTEGER,
    UNIQUE (node_id, boot, sequence)
);
CREATE TABLE rollup_progress (
    node_id INTEGER PRIMARY KEY,
    boot_id INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    checksum INTEGER
);
CREATE TABLE node_rollups (
    step INTEGER NOT NULL, bucket INTEGER NOT NULL, node_id INTEGER NOT NULL, {_ROLLUP_COLUMNS},
    joules REAL, idle_joules REAL, containers_joules REAL,
    covered_from REAL, covered_until REAL, {_GENERATED["node_rollups"]},
    PRIMARY KEY (step, bucket, node_id)
) WITHOUT ROWID;
CREATE TABLE container_rollups (
    step INTEGER NOT NULL, bucket INTEGER NOT NULL, container_id INTEGER NOT NULL, {_ROLLUP_COLUMNS},
    joules REAL, {_GENERATED["container_rollups"]},
    PRIMARY KEY (step, bucket, container_id)
) WITHOUT ROWID;
CREATE TABLE key_values (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    value BLOB NOT NULL,
    checksum INTEGER,
    PRIMARY KEY (kind, key)
) WITHOUT ROWID;
CREATE TABLE counts (name TEXT PRIMARY KEY, rows INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO counts VALUES ('commits', 0);
{_COUNTS}
"""  # noqa: S608 - names of our own

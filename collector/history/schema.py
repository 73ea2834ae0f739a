"""The tables of the SQLite history.

Shaped by how it is used: reports come in all the time, and old ones go all the time. Samples are
therefore clustered by arrival (`sample_id` only grows): writing appends to the last pages, forgetting
empties the first ones, and a window of time is one contiguous range, however many nodes there are.
What seldom changes (names, images, limits, gaps) is written once and referred to by a small number.

One row of `node_samples` is one report, so its unique index on `(boot_id, sequence)` is also the record
of what was delivered. `seen_at` says until when a row was surely in use, which lets it go without
searching the samples for references.
"""

VERSION = 1

NAMED_TABLES = ("nodes", "boots", "containers", "facts")

TABLES = """
CREATE TABLE nodes (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, seen_at REAL NOT NULL,
    UNIQUE (name)
);
CREATE TABLE boots (
    id INTEGER PRIMARY KEY, node_id INTEGER NOT NULL, name TEXT NOT NULL, seen_at REAL NOT NULL,
    UNIQUE (node_id, name)
);
CREATE TABLE containers (
    id INTEGER PRIMARY KEY, node_id INTEGER NOT NULL, runtime_id TEXT NOT NULL, seen_at REAL NOT NULL,
    UNIQUE (node_id, runtime_id)
);
CREATE TABLE facts (
    id INTEGER PRIMARY KEY, body TEXT NOT NULL, seen_at REAL NOT NULL,
    UNIQUE (body)
);
CREATE TABLE node_samples (
    id INTEGER PRIMARY KEY,
    boot_id INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    received_at REAL NOT NULL,
    at REAL NOT NULL,
    interval_seconds REAL NOT NULL,
    facts_id INTEGER NOT NULL,
    cpu_cores REAL, memory_bytes INTEGER, disk_bytes_per_second REAL, network_bytes_per_second REAL,
    cpu_pressure_ratio REAL, memory_pressure_ratio REAL, disk_pressure_ratio REAL,
    watts REAL, idle_watts REAL, system_watts REAL, error_ratio REAL, joules_total REAL,
    UNIQUE (boot_id, sequence)
);
CREATE INDEX node_samples_received_at ON node_samples (received_at);
CREATE TABLE container_samples (
    sample_id INTEGER NOT NULL,
    container_id INTEGER NOT NULL,
    facts_id INTEGER NOT NULL,
    cpu_seconds_total REAL NOT NULL,
    cpu_cores REAL, memory_bytes INTEGER, disk_bytes_per_second REAL, network_bytes_per_second REAL,
    cpu_pressure_ratio REAL, memory_pressure_ratio REAL, disk_pressure_ratio REAL,
    watts REAL, error_ratio REAL, joules_total REAL,
    PRIMARY KEY (sample_id, container_id)
) WITHOUT ROWID;
"""

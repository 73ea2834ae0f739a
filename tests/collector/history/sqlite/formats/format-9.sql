-- The tables of format 9, and accounts of a year.
PRAGMA application_id = 1463899220;
PRAGMA user_version = 9;
CREATE TABLE nodes (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, last_used_at REAL NOT NULL,
    UNIQUE (name)
);
CREATE TABLE boots (
    id INTEGER PRIMARY KEY AUTOINCREMENT, node_id INTEGER NOT NULL, name TEXT NOT NULL,
    last_used_at REAL NOT NULL,
    UNIQUE (node_id, name)
);
CREATE TABLE containers (
    id INTEGER PRIMARY KEY AUTOINCREMENT, node_id INTEGER NOT NULL, runtime_id TEXT NOT NULL,
    last_used_at REAL NOT NULL, facts_id INTEGER, ended_joules_total REAL,
    UNIQUE (node_id, runtime_id)
);
CREATE INDEX containers_runtime_id ON containers (runtime_id);
CREATE INDEX containers_facts_id ON containers (facts_id);
CREATE TABLE facts (
    id INTEGER PRIMARY KEY, body TEXT NOT NULL, last_used_at REAL NOT NULL,
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
    PRIMARY KEY (boot_id, resource, opened_at)
) WITHOUT ROWID;
CREATE TABLE usage (
    node_id INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (node_id, slot)
);
CREATE TABLE pending_usage (
    node_id INTEGER NOT NULL,
    boot TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (node_id, boot, sequence)
);
CREATE TABLE rollup_progress (
    node_id INTEGER PRIMARY KEY,
    boot_id INTEGER NOT NULL,
    sequence INTEGER NOT NULL
);
CREATE TABLE node_rollups (
    step INTEGER NOT NULL, slot INTEGER NOT NULL, node_id INTEGER NOT NULL, seconds REAL, cpu_core_seconds REAL, memory_byte_seconds REAL, disk_bytes REAL, network_bytes REAL, watt_seconds REAL, max_cpu_cores REAL, max_memory_bytes REAL, max_disk_bytes_per_second REAL, max_network_bytes_per_second REAL, max_watts REAL,
    joules REAL, idle_joules REAL, containers_joules REAL,
    covered_from REAL, covered_until REAL, checksum INTEGER GENERATED ALWAYS AS (CAST(coalesce(slot, -1) * 1000 AS INTEGER) % 1000003 * 3 + CAST(coalesce(node_id, -1) * 1000 AS INTEGER) % 1000003 * 8 + CAST(coalesce(seconds, -1) * 1000 AS INTEGER) % 1000003 * 33 + CAST(coalesce(cpu_core_seconds, -1) * 1000 AS INTEGER) % 1000003 * 130 + CAST(coalesce(memory_byte_seconds, -1) * 1000 AS INTEGER) % 1000003 * 8195 + CAST(coalesce(disk_bytes, -1) * 1000 AS INTEGER) % 1000003 * 8 + CAST(coalesce(network_bytes, -1) * 1000 AS INTEGER) % 1000003 * 13 + CAST(coalesce(watt_seconds, -1) * 1000 AS INTEGER) % 1000003 * 38 + CAST(coalesce(max_cpu_cores, -1) * 1000 AS INTEGER) % 1000003 * 135 + CAST(coalesce(max_memory_bytes, -1) * 1000 AS INTEGER) % 1000003 * 8200 + CAST(coalesce(max_disk_bytes_per_second, -1) * 1000 AS INTEGER) % 1000003 * 13 + CAST(coalesce(max_network_bytes_per_second, -1) * 1000 AS INTEGER) % 1000003 * 18 + CAST(coalesce(max_watts, -1) * 1000 AS INTEGER) % 1000003 * 43 + CAST(coalesce(joules, -1) * 1000 AS INTEGER) % 1000003 * 140 + CAST(coalesce(idle_joules, -1) * 1000 AS INTEGER) % 1000003 * 8205 + CAST(coalesce(containers_joules, -1) * 1000 AS INTEGER) % 1000003 * 18 + CAST(coalesce(covered_from, -1) * 1000 AS INTEGER) % 1000003 * 23 + CAST(coalesce(covered_until, -1) * 1000 AS INTEGER) % 1000003 * 48) STORED,
    PRIMARY KEY (step, slot, node_id)
) WITHOUT ROWID;
CREATE TABLE container_rollups (
    step INTEGER NOT NULL, slot INTEGER NOT NULL, container_id INTEGER NOT NULL, seconds REAL, cpu_core_seconds REAL, memory_byte_seconds REAL, disk_bytes REAL, network_bytes REAL, watt_seconds REAL, max_cpu_cores REAL, max_memory_bytes REAL, max_disk_bytes_per_second REAL, max_network_bytes_per_second REAL, max_watts REAL,
    joules REAL, checksum INTEGER GENERATED ALWAYS AS (CAST(coalesce(slot, -1) * 1000 AS INTEGER) % 1000003 * 3 + CAST(coalesce(container_id, -1) * 1000 AS INTEGER) % 1000003 * 8 + CAST(coalesce(seconds, -1) * 1000 AS INTEGER) % 1000003 * 33 + CAST(coalesce(cpu_core_seconds, -1) * 1000 AS INTEGER) % 1000003 * 130 + CAST(coalesce(memory_byte_seconds, -1) * 1000 AS INTEGER) % 1000003 * 8195 + CAST(coalesce(disk_bytes, -1) * 1000 AS INTEGER) % 1000003 * 8 + CAST(coalesce(network_bytes, -1) * 1000 AS INTEGER) % 1000003 * 13 + CAST(coalesce(watt_seconds, -1) * 1000 AS INTEGER) % 1000003 * 38 + CAST(coalesce(max_cpu_cores, -1) * 1000 AS INTEGER) % 1000003 * 135 + CAST(coalesce(max_memory_bytes, -1) * 1000 AS INTEGER) % 1000003 * 8200 + CAST(coalesce(max_disk_bytes_per_second, -1) * 1000 AS INTEGER) % 1000003 * 13 + CAST(coalesce(max_network_bytes_per_second, -1) * 1000 AS INTEGER) % 1000003 * 18 + CAST(coalesce(max_watts, -1) * 1000 AS INTEGER) % 1000003 * 43 + CAST(coalesce(joules, -1) * 1000 AS INTEGER) % 1000003 * 140) STORED,
    PRIMARY KEY (step, slot, container_id)
) WITHOUT ROWID;
CREATE TABLE key_values (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (kind, key)
) WITHOUT ROWID;
INSERT INTO nodes (id, name, last_used_at) VALUES (1, 'alpha', 1800000000.0);
INSERT INTO boots (id, node_id, name, last_used_at) VALUES (1, 1, 'first', 1800000000.0);
INSERT INTO facts (id, body, last_used_at) VALUES (1, '{"name":"web","runtime":"docker","service":"shop"}', 1800000000.0);
INSERT INTO containers (id, node_id, runtime_id, last_used_at, facts_id) VALUES (1, 1, 'id-of-web', 1800000000.0, 1);
INSERT INTO reports (id, boot_id, sequence, received_at, at, size) VALUES (1, 1, 1, 1800000000.0, 1800000000.0, 700);
INSERT INTO node_rollups (step, slot, node_id, seconds, joules, idle_joules, containers_joules, covered_from, covered_until) VALUES (3600, 491240, 1, 3600.0, 3600.0, 1000.0, 500.0, 1768464000.0, 1768467600.0);
INSERT INTO container_rollups (step, slot, container_id, seconds, joules) VALUES (3600, 491240, 1, 3600.0, 500.0);
INSERT INTO node_rollups (step, slot, node_id, seconds, joules, idle_joules, containers_joules, covered_from, covered_until) VALUES (3600, 499280, 1, 3600.0, 3600.0, 1000.0, 500.0, 1797408000.0, 1797411600.0);
INSERT INTO container_rollups (step, slot, container_id, seconds, joules) VALUES (3600, 499280, 1, 3600.0, 500.0);
INSERT INTO node_rollups (step, slot, node_id, seconds, joules, idle_joules, containers_joules, covered_from, covered_until) VALUES (3600, 500000, 1, 3600.0, 3600.0, 1000.0, 500.0, 1800000000.0, 1800003600.0);
INSERT INTO container_rollups (step, slot, container_id, seconds, joules) VALUES (3600, 500000, 1, 3600.0, 500.0);
INSERT INTO node_rollups (step, slot, node_id, seconds, joules, idle_joules, containers_joules, covered_from, covered_until) VALUES (300, 6000000, 1, 300.0, 3600.0, 1000.0, 500.0, 1800000000.0, 1800000300.0);
INSERT INTO container_rollups (step, slot, container_id, seconds, joules) VALUES (300, 6000000, 1, 300.0, 500.0);

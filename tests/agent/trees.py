"""Builds the proc and sys trees of a host, as the kernel lays them out."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.sources.cgroups.containers import ContainerRef, FoundContainer
from agent.sources.readings import CgroupReading, CpuTotals, DiskTotals, Limits, MemoryLevels, PressureTotals

V1_NO_LIMIT = "9223372036854771712"
V1_CONTROLLERS = "cpu cpuacct cpuset memory blkio pids"

MEMINFO = """\
MemTotal:        8000000 kB
MemFree:         1000000 kB
MemAvailable:    5000000 kB
Buffers:          100000 kB
Cached:          2000000 kB
SwapCached:            0 kB
Active:          3000000 kB
Inactive:        2000000 kB
Shmem:             20000 kB
Slab:             300000 kB
SReclaimable:     200000 kB
SwapTotal:       1000000 kB
SwapFree:         750000 kB
"""

CPUINFO = """\
processor	: 0
model name	: A processor
cpu MHz		: 2000.000

processor	: 1
model name	: A processor
cpu MHz		: 3000.500
"""

STAT = """\
cpu  300 20 100 90000 500 7 13 900 40 0
cpu0 100 10 60 45000 200 3 6 400 40 0
cpu1 200 10 40 45000 300 4 7 500 0 0
intr 12345 0 0
ctxt 99999
btime 1700000000
"""

NET_DEV = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:    5000      50    0    0    0     0          0         0     5000      50    0    0    0     0       0          0
  eth0: 1000000     900    0    0    0     0          0         0   200000     800    0    0    0     0       0          0
  eth1:    3000      30    0    0    0     0          0         0     4000      40    0    0    0     0       0          0
docker0:   7000      70    0    0    0     0          0         0     8000      80    0    0    0     0       0          0
veth12ab:   7000      70    0    0    0     0          0         0     8000      80    0    0    0     0       0          0
"""  # noqa: E501 - as wide as the kernel writes it

DISKSTATS = """\
   7       0 loop0 10 0 80 1 0 0 0 0 0 1 1 0 0 0 0 0 0
   8       0 sda 1000 10 20000 300 500 20 10000 400 0 500 700 0 0 0 0 0 0
   8       1 sda1 900 10 18000 300 400 20 8000 400 0 500 700 0 0 0 0 0 0
   8      16 sdb 10 0 200 3 5 0 100 4 0 5 7 0 0 0 0 0 0
 253       0 dm-0 950 0 19000 300 450 0 9000 400 0 500 700 0 0 0 0 0 0
   9       0 md0 5 0 100 0 5 0 100 0 0 0 0 0 0 0 0 0 0
 252       0 zram0 100 0 800 0 100 0 800 0 0 0 0 0 0 0 0 0 0
 259       1 nvme0c0n1 5 0 4000 0 5 0 4000 0 0 0 0 0 0 0 0 0 0
"""


def pressure(some_us: int) -> str:
    return (
        f"some avg10=0.10 avg60=0.20 avg300=0.30 total={some_us}\n"
        f"full avg10=0.00 avg60=0.00 avg300=0.00 total={some_us // 2}\n"
    )


def write(root: Path, files: Mapping[str, str]) -> None:
    """Make the files below `root`; a name that ends in a slash is an empty directory."""
    for name, text in files.items():
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


@dataclass(frozen=True)
class Host:
    """The roots of a host, with methods that add files."""

    proc: Path
    sys: Path

    @property
    def cgroup(self) -> Path:
        return self.sys / "fs/cgroup"

    def mounted(self, *mounts: str) -> None:
        """List cgroup mounts given as `type point options`, among the others of any host."""
        lines = ["22 27 0:21 / /proc rw,relatime - proc proc rw", "27 1 8:1 / / rw - ext4 /dev/sda1 rw"]
        for number, mount in enumerate(mounts, start=30):
            kind, point, options = mount.split()
            lines.append(f"{number} 27 0:{number} / {point} rw,nosuid shared:9 - {kind} {kind} {options}")
        write(self.proc, {"self/mountinfo": "\n".join(lines) + "\n"})

    def process(self, pid: int | str, namespace: int, net_dev: str = NET_DEV) -> None:
        """Add a process in a network namespace; all processes of a namespace share one file."""
        write(self.proc, {f"namespaces/{namespace}": net_dev})
        path = self.proc / str(pid) / "net/dev"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.hardlink_to(self.proc / "namespaces" / str(namespace))

    def end(self, pid: int) -> None:
        """Remove a process."""
        shutil.rmtree(self.proc / str(pid))


HOST_NAMESPACE = 4026531840


def make_host(base: Path) -> Host:
    """A host with two cores, two disks (one below a logical volume), two cards, and no cgroups yet."""
    host = Host(base / "proc", base / "sys")
    write(
        host.proc,
        {
            "stat": STAT,
            "meminfo": MEMINFO,
            "diskstats": DISKSTATS,
            "cpuinfo": CPUINFO,
            "loadavg": "1.25 0.75 0.50 2/345 6789\n",
            "vmstat": "nr_free_pages 1\noom_kill 3\nthp_split_page 0\n",
            "pressure/cpu": pressure(2_000_000),
            "pressure/memory": pressure(3_000_000),
            "pressure/io": pressure(4_000_000),
        },
    )
    host.process(1, HOST_NAMESPACE)
    write(
        host.sys,
        {
            "block/loop0/slaves/": "",
            "block/sda/slaves/": "",
            "block/sda/hidden": "0\n",
            "block/sdb/slaves/": "",
            "block/dm-0/slaves/sda1/": "",
            "block/md0/slaves/sdb/": "",
            "block/zram0/slaves/": "",
            "block/nvme0c0n1/hidden": "1\n",
            "class/net/lo/": "",
            "class/net/eth0/device/": "",
            "class/net/eth0/speed": "1000\n",
            "class/net/eth0/operstate": "up\n",
            "class/net/eth1/device/": "",
            "class/net/eth1/speed": "10000\n",
            "class/net/eth1/operstate": "up\n",
            "class/net/docker0/bridge/": "",
            "class/net/veth12ab/": "",
        },
    )
    return host


def make_v1(host: Host, *, together: bool = False, controllers: str = V1_CONTROLLERS) -> None:
    """Version 1 hierarchies, each on its own, or `cpu` and `cpuacct` together as systemd mounts them."""
    names = controllers.split()
    if together:
        names = [name for name in names if name not in {"cpu", "cpuacct"}] + ["cpu,cpuacct"]
    for name in names:
        write(host.cgroup, {f"{name}/cgroup.procs": "1\n", f"{name}/tasks": "1\n"})
    if together:
        for name in ("cpu", "cpuacct"):
            link(host.cgroup / name, "cpu,cpuacct")
    host.mounted(*(f"cgroup /sys/fs/cgroup/{name} rw,{name}" for name in names))


def make_unified(host: Host, controllers: str = "") -> None:
    """The version 2 hierarchy next to those of version 1."""
    write(
        host.cgroup,
        {"unified/cgroup.controllers": f"{controllers}\n", "unified/cgroup.procs": "1\n"},
    )
    table = (host.proc / "self/mountinfo").read_text()
    extra = "90 27 0:90 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
    (host.proc / "self/mountinfo").write_text(table + extra)


def make_v2(host: Host, controllers: str = "cpuset cpu io memory pids") -> None:
    """Version 2 alone, as most hosts have it."""
    write(host.cgroup, {"cgroup.controllers": f"{controllers}\n", "cgroup.procs": "1\n"})
    host.mounted("cgroup2 /sys/fs/cgroup rw,nsdelegate,memory_recursiveprot")


def v1_container(host: Host, path: str, *, cpu: str = "cpu", cpuacct: str = "cpuacct", pid: int = 0) -> None:
    """A container that has used 1.5 s of CPU, may use half a core and 64 MiB, and has done some I/O."""
    write(
        host.cgroup,
        {
            f"{cpuacct}/{path}/cpuacct.usage": "1500000000\n",
            f"{cpuacct}/{path}/cpuacct.stat": "user 100\nsystem 50\n",
            f"{cpuacct}/{path}/cgroup.procs": f"{pid}\n{pid + 1}\n" if pid else "",
            f"{cpu}/{path}/cpu.cfs_quota_us": "50000\n",
            f"{cpu}/{path}/cpu.cfs_period_us": "100000\n",
            f"{cpu}/{path}/cpu.shares": "512\n",
            f"{cpu}/{path}/cpu.stat": "nr_periods 9\nnr_throttled 2\nthrottled_time 250000000\n",
            f"cpuset/{path}/cpuset.cpus": "0-1\n",
            f"memory/{path}/memory.usage_in_bytes": "20971520\n",
            f"memory/{path}/memory.limit_in_bytes": "67108864\n",
            f"memory/{path}/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n",
            f"memory/{path}/memory.stat": (
                "cache 4096\nrss 8191\ninactive_file 1\nactive_file 0\n"
                "hierarchical_memory_limit 67108864\nhierarchical_memsw_limit 134217728\n"
                "total_cache 6291456\ntotal_rss 8192\ntotal_swap 12288\n"
                "total_inactive_file 4194304\ntotal_active_file 0\n"
            ),
            f"blkio/{path}/blkio.throttle.io_service_bytes_recursive": (
                "8:0 Read 4096\n8:0 Write 8192\n8:0 Sync 12288\n8:0 Async 0\n"
                "8:0 Discard 512\n8:0 Total 12800\n"
                "253:0 Read 4096\n253:0 Write 8192\n253:0 Total 12288\nTotal 25088\n"
            ),
            f"blkio/{path}/blkio.throttle.io_serviced_recursive": (
                "8:0 Read 1\n8:0 Write 2\n8:0 Total 3\n253:0 Read 1\n253:0 Write 2\nTotal 6\n"
            ),
            f"pids/{path}/pids.current": "7\n",
        },
    )


def v2_container(host: Host, path: str, *, pid: int = 0) -> None:
    """The same container in version 2, with pressure."""
    write(
        host.cgroup,
        {
            f"{path}/cgroup.procs": f"{pid}\n{pid + 1}\n" if pid else "",
            f"{path}/cpu.stat": (
                "usage_usec 1500000\nuser_usec 1000000\nsystem_usec 500000\n"
                "nr_periods 9\nnr_throttled 2\nthrottled_usec 250000\n"
            ),
            f"{path}/cpu.max": "50000 100000\n",
            f"{path}/cpu.weight": "50\n",
            f"{path}/cpuset.cpus.effective": "0-1\n",
            f"{path}/memory.current": "20971520\n",
            f"{path}/memory.max": "67108864\n",
            f"{path}/memory.swap.current": "12288\n",
            f"{path}/memory.events": "low 0\nhigh 0\nmax 9\noom 5\noom_kill 4\noom_group_kill 0\n",
            f"{path}/memory.stat": "anon 8192\nfile 6291456\ninactive_file 4194304\nactive_file 0\n",
            f"{path}/io.stat": (
                "8:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=512 dios=1\n"
                "253:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n"
            ),
            f"{path}/pids.current": "7\n",
            f"{path}/cpu.pressure": pressure(100_000),
            f"{path}/memory.pressure": pressure(200_000),
            f"{path}/io.pressure": pressure(300_000),
        },
    )


THE_CONTAINER = CgroupReading(
    cpu=CpuTotals(seconds=1.5, user_seconds=1.0, system_seconds=0.5, throttled_seconds=0.25),
    memory=MemoryLevels(
        usage_bytes=20 << 20,
        inactive_file_bytes=4 << 20,
        anon_bytes=8192,
        file_bytes=6 << 20,
        swap_bytes=12288,
        oom_kills=4,
    ),
    disk=DiskTotals(transferred_bytes=12288, operations=3, written_bytes=8192),
    pids=7,
    pressure=PressureTotals(0.1, 0.2, 0.3),
    limits=Limits(cpu_cores=0.5, memory_bytes=64 << 20),
    cpu_weight=0.5,
)
"""The reading of both containers; device 253:0 is not a disk."""


def found_container(directory: Path) -> FoundContainer:
    """The container of a cgroup directory, as a walk finds it; the directory may have been removed since."""
    inode = directory.stat().st_ino if directory.exists() else 0
    return FoundContainer(ContainerRef(directory.name, "docker"), directory.name, str(directory), inode)


def container_id(number: int) -> str:
    return f"{number:064x}"

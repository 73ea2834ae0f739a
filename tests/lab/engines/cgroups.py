"""Control groups of the lab, on machines with v1, v2 or both."""

from pathlib import Path

from tests.lab.guardian import hierarchies

_PERIOD_MICROSECONDS = 100_000


def unified() -> Path | None:
    """Return the mount point of cgroup v2, if there is one, with or without controllers."""
    return next((path for path in hierarchies() if (path / "cgroup.controllers").exists()), None)


def root_of(controller: str) -> Path:
    """Return the root of the hierarchy of a controller (cpu, memory, ...)."""
    v2 = unified()
    if v2 is not None and controller in (v2 / "cgroup.controllers").read_text(encoding="ascii").split():
        return v2
    # v1 names a hierarchy after its controllers, several of them joined by commas.
    return next(path for path in hierarchies() if controller in path.name.split(","))


def tracking_root() -> Path:
    """Return a hierarchy that is suitable for tracking processes."""
    return unified() or root_of("freezer")


def limit(name: str, *, cpus: float | None = None, memory_bytes: int | None = None) -> None:
    """Limit a control group and its children; a limit that is not given stays as it is."""
    if cpus is not None:
        group = _make("cpu", name)
        quota = round(cpus * _PERIOD_MICROSECONDS)
        if (group / "cpu.max").exists():
            _write(group / "cpu.max", f"{quota} {_PERIOD_MICROSECONDS}")
        else:
            _write(group / "cpu.cfs_period_us", str(_PERIOD_MICROSECONDS))
            _write(group / "cpu.cfs_quota_us", str(quota))
    if memory_bytes is not None:
        group = _make("memory", name)
        v2 = group / "memory.max"
        _write(v2 if v2.exists() else group / "memory.limit_in_bytes", str(memory_bytes))


def _make(controller: str, name: str) -> Path:
    root = root_of(controller)
    if root == unified():
        _write(root / "cgroup.subtree_control", f"+{controller}")
    (root / name).mkdir(exist_ok=True)
    return root / name


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="ascii")

"""What a compromised host can have started on another one: nothing that reaches beyond its container."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from collector.config import DriverConfig
from collector.drivers.interface import DriverError
from collector.drivers.table import open_driver
from collector.features.docker.allow_list import (
    CONFIG_FIELDS,
    HOST_FIELDS,
    portable_config,
    portable_host_config,
    refusals,
)
from collector.policies.actions import Move
from wire.errors import UserError

ID = "0123456789abcdef"
NEVER = {"Binds", "VolumesFrom", "DeviceCgroupRules", "DeviceRequests", "CpuRealtimeRuntime", "VolumeDriver"}
GUARDED: Mapping[str, tuple[Any, str]] = {
    "Privileged": (True, "privileged"),
    "PidMode": ("host", "pid=host"),
    "NetworkMode": ("host", "network=host"),
    "IpcMode": ("host", "ipc=host"),
    "UTSMode": ("host", "uts=host"),
    "UsernsMode": ("host", "userns=host"),
    "CapAdd": (["SYS_ADMIN"], "capability=SYS_ADMIN"),
    "Devices": (
        [{"PathOnHost": "/dev/sda", "PathInContainer": "/dev/sda", "CgroupPermissions": "rwm"}],
        "device=/dev/sda",
    ),
    "SecurityOpt": (["seccomp=unconfined"], "security=seccomp=unconfined"),
    "Sysctls": ({"net.core.somaxconn": "1"}, "sysctl=net.core.somaxconn"),
    "Runtime": ("evil", "runtime=evil"),
    "CgroupParent": ("/", "cgroup-parent=/"),
    "LogConfig": ({"Type": "syslog", "Config": {"syslog-address": "tcp://evil:1"}}, "log=syslog"),
}
UNGRANTABLE: Mapping[str, Any] = {
    "Binds": ["/:/host"],
    "VolumesFrom": ["other"],
    "Mounts": [{"Type": "bind", "Source": "/", "Target": "/host"}],
    "DeviceCgroupRules": ["a *:* rwm"],
    "DeviceRequests": [{"Count": -1}],
    "PidMode": "container:other",
    "IpcMode": "container:other",
    "MaskedPaths": [],
    "Privileged": "yes",
    "privileged": True,  # an engine reads names in any case
    "ReadonlyPaths": [],
}

names = st.sampled_from([*HOST_FIELDS, *GUARDED, *UNGRANTABLE]) | st.text(max_size=12)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(
        ["host", "container:x", "runc", "private", "seccomp=unconfined", "/dev/mem", "SYS_ADMIN"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | names, inner, max_size=3)
    ),
    max_leaves=6,
)
dangerous = st.fixed_dictionaries(
    {},
    optional={
        **{name: st.just(value) for name, (value, _) in GUARDED.items()},
        **{name: st.just(value) for name, value in UNGRANTABLE.items()},
    },
)
grants = st.sets(st.sampled_from([grant for _, grant in GUARDED.values()]))


@given(st.dictionaries(names, values, max_size=12), dangerous, grants)
def test_whatever_a_host_describes_only_granted_rights_are_copied(
    described: dict[str, Any], danger: dict[str, Any], granted: set[str]
) -> None:
    body = portable_host_config({**described, **danger}, granted)
    assert {*body} <= {*HOST_FIELDS, *GUARDED}
    assert not {*body} & NEVER
    assert body.get("Privileged") in (None, *([True] if "privileged" in granted else []))
    for field, kind in (("PidMode", "pid"), ("IpcMode", "ipc"), ("UTSMode", "uts"), ("UsernsMode", "userns")):
        allowed = {None, "private", "none", "shareable", *(["host"] if f"{kind}=host" in granted else [])}
        assert body.get(field) in allowed
    network = body.get("NetworkMode", "")
    assert ":" not in network
    assert network != "host" or "network=host" in granted
    assert {f"capability={each}" for each in body.get("CapAdd", ())} <= granted
    assert {f"device={each['PathOnHost']}" for each in body.get("Devices", ())} <= granted
    assert {
        f"security={each}" for each in body.get("SecurityOpt", ()) if "no-new-privileges" not in each
    } <= granted
    assert all(mount["Type"] == "tmpfs" for mount in body.get("Mounts", ()))


@given(st.dictionaries(names, values, max_size=12), dangerous, grants)
def test_a_container_moves_with_all_its_settings_or_not_at_all(
    described: dict[str, Any], danger: dict[str, Any], granted: set[str]
) -> None:
    host_config = {**described, **danger}
    if next(refusals(host_config, granted), None) is None:
        body = portable_host_config(host_config, granted)
        left = {"ContainerIDFile", "Links", "ConsoleSize", "AutoRemove"}
        for name, value in host_config.items():
            is_default = name in {"MaskedPaths", "ReadonlyPaths", "CgroupnsMode", "Isolation", "Runtime"}
            is_default = is_default or (name == "MemorySwappiness" and value == -1)
            assert body.get(name) == value or value in (None, "", 0, [], {}) or name in left or is_default


@pytest.mark.parametrize(("field", "value", "grant"), [(name, *each) for name, each in GUARDED.items()])
def test_a_right_needs_its_own_grant(field: str, value: Any, grant: str) -> None:
    others = {other for _, other in GUARDED.values()} - {grant}
    assert field not in portable_host_config({field: value}, others)
    assert list(refusals({field: value}, others)) == [
        f"it needs {grant}, which [driver.allow] does not grant on the other host"
    ]
    assert portable_host_config({field: value}, {grant}) == {field: value}
    assert not list(refusals({field: value}, {grant}))


@pytest.mark.parametrize(("field", "value"), [item for item in UNGRANTABLE.items() if item[1]])
def test_some_fields_no_grant_allows(field: str, value: Any) -> None:
    granted = {grant for _, grant in GUARDED.values()}
    assert field not in portable_host_config({field: value}, granted)
    (reason,) = refusals({field: value}, granted)
    assert reason.endswith("which may not move to another host")


def test_restrictions_are_copied_without_a_grant() -> None:
    strict = {
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "ReadonlyRootfs": True,
        "PidsLimit": 100,
        "LogConfig": {"Type": "json-file", "Config": {"max-size": "10m"}},
    }
    assert portable_host_config(strict) == strict
    assert not list(refusals(strict))


def test_defaults_of_an_engine_do_not_prevent_a_move() -> None:
    defaults = {
        "Binds": None,
        "ContainerIDFile": "",
        "LogConfig": {"Type": "json-file", "Config": {}},
        "NetworkMode": "default",
        "PortBindings": {},
        "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
        "AutoRemove": False,
        "CapAdd": None,
        "CgroupnsMode": "host",
        "IpcMode": "shareable",
        "PidMode": "",
        "Privileged": False,
        "ShmSize": 67108864,
        "Runtime": "runc",
        "ConsoleSize": [0, 0],
        "Isolation": "",
        "Devices": [],
        "MaskedPaths": ["/proc/kcore"],
        "ReadonlyPaths": ["/proc/sys"],
    }
    assert not list(refusals(defaults))


@given(st.dictionaries(st.sampled_from([*CONFIG_FIELDS, "HostConfig", "hostconfig"]) | names, values))
def test_a_description_cannot_smuggle_a_second_host_config(config: dict[str, Any]) -> None:
    assert {*portable_config(config)} <= {*CONFIG_FIELDS}


@pytest.mark.parametrize("grant", ["everything", "pid=other", "capability=", "bind=/"])
def test_an_unknown_grant_is_an_error_of_the_settings(grant: str) -> None:
    with pytest.raises(UserError, match=r"driver\.allow: web2 grants .* write one of privileged, pid=host"):
        DriverConfig(allow={"web2": (grant,)})


# --- The whole way: an engine that lies, and the engine of the target ------------------------------


class FakeEngine:
    """An engine that describes one container as it likes, and records what it is asked to create."""

    def __init__(self, host_config: dict[str, Any]) -> None:
        self._host_config = host_config
        self.created: list[dict[str, Any]] = []

    @asynccontextmanager
    async def serving(self, socket: Path) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_get("/containers/{id}/json", self._inspect)
        app.router.add_get("/images/{name}/json", self._plain)
        app.router.add_post("/containers/create", self._create)
        app.router.add_post("/containers/{id}/{action}", self._plain)
        app.router.add_delete("/containers/{id}", self._plain)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.UnixSite(runner, str(socket)).start()
        try:
            yield f"unix://{socket}"
        finally:
            await runner.cleanup()

    async def _inspect(self, _request: web.Request) -> web.Response:
        described = {
            "Id": ID,
            "Name": "/web",
            "Image": "sha256:1",
            "State": {"Status": "running"},
            "Config": {
                "Image": "web:1",
                "Labels": {"wattpack.move": "allowed"},
                "hostconfig": self._host_config,
            },
            "HostConfig": self._host_config,
            "Mounts": [],  # a lie
        }
        return web.json_response(described)

    async def _plain(self, _request: web.Request) -> web.Response:
        return web.json_response({})

    async def _create(self, request: web.Request) -> web.Response:
        self.created.append(await request.json())
        return web.json_response({"Id": "f" * 64})


@pytest.mark.parametrize(
    ("host_config", "allow", "may_move"),
    [
        ({"Binds": ["/:/host"]}, ("privileged",), False),
        ({"Privileged": True}, (), False),
        ({"PidMode": "host"}, ("ipc=host",), False),
        ({"PidMode": "host"}, ("pid=host",), True),
        ({"Memory": 1 << 20}, (), True),
    ],
)
async def test_a_compromised_host_starts_nothing_on_another_that_the_target_does_not_allow(
    tmp_path: Path,
    host_config: dict[str, Any],
    allow: tuple[str, ...],
    may_move: bool,  # noqa: FBT001 - the expected
) -> None:
    bad, good = FakeEngine(host_config), FakeEngine({})
    async with AsyncExitStack() as stack:
        engines = {
            name: await stack.enter_async_context(engine.serving(tmp_path / name))
            for name, engine in (("bad", bad), ("good", good))
        }
        # What the source allows on itself counts for nothing.
        own = ("privileged", "pid=host")
        settings = DriverConfig(
            name="docker", engines=engines, allow={"bad": own, "good": allow}, stable_seconds=0
        )
        driver = await stack.enter_async_context(open_driver(settings))
        action = Move(task=ID, node="bad", target="good", reasons=("because",))
        if may_move:
            await driver.carry_out(action)
            (body,) = good.created
            assert body["HostConfig"] == host_config
            assert {*body} == {"Image", "Labels", "HostConfig"}
        else:
            with pytest.raises(DriverError, match="cannot move"):
                await driver.carry_out(action)
            assert not good.created

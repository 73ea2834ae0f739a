"""What a compromised host can have started on another one: nothing that reaches beyond its container."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from collector.act.drivers.interface import DriverError
from collector.act.drivers.table import open_driver
from collector.config import DriverConfig
from collector.decide.policies.actions import Move
from collector.features.docker.allow_list import portable_config, portable_host_config, refusals

ID = "0123456789abcdef"
PLAIN: Mapping[str, Any] = {
    "Memory": 1 << 20,
    "NetworkMode": "shop",
    "CapDrop": ["ALL"],
    "SecurityOpt": ["no-new-privileges"],
    "ReadonlyRootfs": True,
    "PidsLimit": 100,
    "LogConfig": {"Type": "json-file", "Config": {"max-size": "10m"}},
    "Mounts": [{"Type": "tmpfs", "Target": "/tmp"}],
    "IpcMode": "private",
}
DANGEROUS: Mapping[str, Any] = {
    "Privileged": True,
    "PidMode": "host",
    "NetworkMode": "host",
    "IpcMode": "host",
    "UTSMode": "host",
    "UsernsMode": "host",
    "CapAdd": ["SYS_ADMIN"],
    "Devices": [{"PathOnHost": "/dev/sda", "PathInContainer": "/dev/sda", "CgroupPermissions": "rwm"}],
    "SecurityOpt": ["no-new-privileges", "seccomp=unconfined"],
    "Sysctls": {"net.core.somaxconn": "1"},
    "Runtime": "evil",
    "CgroupParent": "/",
    "LogConfig": {"Type": "syslog", "Config": {"syslog-address": "tcp://evil:1"}},
    "Binds": ["/:/host"],
    "VolumesFrom": ["other"],
    "Mounts": [{"Type": "bind", "Source": "/", "Target": "/host"}],
    "DeviceCgroupRules": ["a *:* rwm"],
    "DeviceRequests": [{"Count": -1}],
    "privileged": True,  # an engine reads names in any case
}

names = st.sampled_from([*PLAIN, *DANGEROUS]) | st.text(max_size=12)
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
dangerous = st.fixed_dictionaries({}, optional={name: st.just(each) for name, each in DANGEROUS.items()})


@given(st.dictionaries(names, values, max_size=12), dangerous)
def test_whatever_a_host_describes_no_rights_beyond_a_container_are_copied(
    described: dict[str, Any], danger: dict[str, Any]
) -> None:
    body = portable_host_config({**described, **danger})
    assert not {*body} & ({*DANGEROUS} - {*PLAIN})
    assert body.get("IpcMode", "none") in {"private", "none", "shareable"}
    network = body.get("NetworkMode", "")
    assert ":" not in network
    assert network != "host"
    assert all("no-new-privileges" in each for each in body.get("SecurityOpt", ()))
    assert all(mount["Type"] == "tmpfs" for mount in body.get("Mounts", ()))


@given(st.dictionaries(names, values, max_size=12), dangerous)
def test_a_container_moves_with_all_its_settings_or_not_at_all(
    described: dict[str, Any], danger: dict[str, Any]
) -> None:
    host_config = {**described, **danger}
    if next(refusals(host_config), None) is None:
        body = portable_host_config(host_config)
        left = {"ContainerIDFile", "Links", "ConsoleSize", "AutoRemove"}
        for name, value in host_config.items():
            is_default = name in {"MaskedPaths", "ReadonlyPaths", "CgroupnsMode", "Isolation", "Runtime"}
            is_default = is_default or (name == "MemorySwappiness" and value == -1)
            assert body.get(name) == value or value in (None, "", 0, [], {}) or name in left or is_default


@pytest.mark.parametrize(
    ("field", "value"),
    [*DANGEROUS.items(), ("PidMode", "container:x"), ("IpcMode", "container:x"), ("Privileged", "yes")],
)
def test_a_container_with_rights_beyond_itself_stays(field: str, value: Any) -> None:
    assert field not in portable_host_config({field: value})
    (reason,) = refusals({field: value})
    assert reason.endswith("which may not move to another host")


def test_settings_of_a_plain_container_are_copied() -> None:
    assert portable_host_config({**PLAIN}) == PLAIN
    assert not list(refusals({**PLAIN}))


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


def test_a_description_cannot_smuggle_a_second_host_config() -> None:
    config = {"Image": "web", "HostConfig": {"Binds": ["/:/host"]}, "hostconfig": {}, "Tty": "yes"}
    assert portable_config(config) == {"Image": "web"}


# --- The whole way: an engine that lies, and the engine of the target ------------------------------


class FakeEngine:
    """An engine that describes one container as it likes, and records what it is asked to create."""

    def __init__(self, host_config: dict[str, Any]) -> None:
        self._host_config = host_config
        self.created: list[dict[str, Any]] = []

    @asynccontextmanager
    async def serving(self, socket: Path) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_get("/containers/json", self._none)
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

    async def _none(self, _request: web.Request) -> web.Response:
        return web.json_response([])

    async def _plain(self, _request: web.Request) -> web.Response:
        return web.json_response({})

    async def _create(self, request: web.Request) -> web.Response:
        self.created.append(await request.json())
        return web.json_response({"Id": "f" * 64})


@pytest.mark.parametrize(
    ("host_config", "may_move"),
    [
        ({"Binds": ["/:/host"]}, False),
        ({"Privileged": True}, False),
        ({"PidMode": "host"}, False),
        ({"Memory": 1 << 20}, True),
    ],
)
async def test_a_compromised_host_starts_nothing_on_another_that_reaches_beyond_its_container(
    tmp_path: Path,
    host_config: dict[str, Any],
    may_move: bool,  # noqa: FBT001 - the expected
) -> None:
    bad, good = FakeEngine(host_config), FakeEngine({})
    async with AsyncExitStack() as stack:
        engines = {
            name: await stack.enter_async_context(engine.serving(tmp_path / name))
            for name, engine in (("bad", bad), ("good", good))
        }
        settings = DriverConfig(name="docker", engines=engines, stable_seconds=0)
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

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sources.cgroups.containers import ContainerRef, container_of

ID = "4f1b8a3c5d7e9f0a1b2c3d4e5f60718293a4b5c6d7e8f9000102030405060708"
OTHER = "a" * 64
UID = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
UNDERSCORED = UID.replace("-", "_")
STATIC_UID = "9a3b6f0c1d2e4f5a6b7c8d9e0f1a2b3c"
STEP = "x1qf2mz8k4n7p0w3s5t6u9v2a"


@pytest.mark.parametrize(
    ("path", "runtime", "pod"),
    [
        (f"/docker/{ID}", "docker", None),
        (f"/{ID}", "docker", None),
        (f"/node1/{ID}", "docker", None),
        (f"/custom/parent/{ID}", "docker", None),
        (f"/system.slice/docker-{ID}.scope", "docker", None),
        (f"/my.slice/my-jobs.slice/docker-{ID}.scope", "docker", None),
        (
            f"/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{ID}.scope/init",
            "docker",
            None,
        ),
        (f"/docker/{ID}/init.scope", "docker", None),
        (f"/docker/{ID}/system.slice/nginx.service", "docker", None),
        (f"/docker/{ID}/docker/{OTHER}", "docker", None),
        (f"/lxc.payload.host7/docker/{ID}", "docker", None),
        (f"/machine.slice/libpod-{ID}.scope", "podman", None),
        (f"/machine.slice/libpod-{ID}.scope/container", "podman", None),
        (
            f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/container",
            "podman",
            None,
        ),
        (f"/libpod_parent/libpod-{ID}", "podman", None),
        (f"/libpod_parent/{OTHER}/libpod-{ID}", "podman", OTHER),
        (f"/machine.slice/machine-libpod_pod_{OTHER}.slice/libpod-{ID}.scope", "podman", OTHER),
        (f"/system.slice/web.service/libpod-payload-{ID}", "podman", None),
        (f"/kubepods/burstable/pod{UID}/{ID}", "containerd", UID),
        (f"/kubepods/besteffort/pod{UID}/{ID}", "containerd", UID),
        (f"/kubepods/pod{UID}/{ID}", "containerd", UID),
        (f"/kubepods/pod{STATIC_UID}/{ID}", "containerd", STATIC_UID),
        (
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDERSCORED}.slice/cri-containerd-{ID}.scope",
            "containerd",
            UID,
        ),
        (f"/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/cri-containerd-{ID}.scope", "containerd", UID),
        (
            f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UNDERSCORED}.slice/cri-containerd-{ID}.scope",
            "containerd",
            UID,
        ),
        (
            f"/system.slice/containerd.service/kubepods-burstable-pod{UNDERSCORED}.slice:cri-containerd:{ID}",
            "containerd",
            UID,
        ),
        (
            f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UNDERSCORED}.slice/crio-{ID}.scope",
            "cri-o",
            UID,
        ),
        (f"/kubepods/besteffort/pod{UID}/crio-{ID}", "cri-o", UID),
        (f"/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/docker-{ID}.scope", "docker", UID),
        (f"/system.slice/nerdctl-{ID}.scope", "containerd", None),
    ],
)
def test_container_is_recognized_by_its_path(path: str, runtime: str, pod: str | None) -> None:
    assert container_of(path) == ContainerRef(ID, runtime, pod)
    assert container_of(path.removeprefix("/")) == ContainerRef(ID, runtime, pod)


@pytest.mark.parametrize("path", [f"/docker/buildkit/{STEP}", f"/system.slice/docker-{STEP}.scope"])
def test_a_step_of_an_image_build_is_a_container_too(path: str) -> None:
    assert container_of(path) == ContainerRef(STEP, "buildkit")


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/docker",
        "/init.scope",
        "/system.slice/docker.service",
        "/system.slice/docker.socket",
        f"/machine.slice/libpod-conmon-{ID}.scope",
        f"/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/crio-conmon-{ID}.scope",
        f"/libpod_parent/{OTHER}",
        f"/libpod_parent/{OTHER}/conmon",
        f"/kubepods/burstable/pod{UID}",
        f"/kubepods.slice/kubepods-pod{UNDERSCORED}.slice",
        f"/system.slice/{ID}.scope",
        f"/system.slice/{ID}.service",
        f"/system.slice/{ID}-1a2b.timer",
        f"/docker/{ID[:-1]}",
        f"/docker/{ID}0",
        f"/docker/{ID.upper()}",
        "/process/f72725c8abc2c179f40d3f5b189c81b3",
        "/docker/buildkit",
        f"/elsewhere/{STEP}",
    ],
)
def test_everything_else_is_not_a_container(path: str) -> None:
    assert container_of(path) is None


@given(st.text())
def test_any_path_can_be_parsed(path: str) -> None:
    container_of(path)


@given(
    st.lists(
        st.sampled_from(["init.scope", "system.slice", "container", "x.service", f"docker-{OTHER}.scope"])
    )
)
def test_what_is_inside_a_container_is_part_of_it(inner: list[str]) -> None:
    assert container_of("/".join(["docker", ID, *inner])) == ContainerRef(ID, "docker")

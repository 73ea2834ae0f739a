"""An API server as small as the driver needs, for the official client: no real one can be had here."""

import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from collector.config import DriverConfig as Settings
from wire.address import Address
from wire.http.serving import serving


def node(name: str, **changes: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "metadata": {"name": name, "labels": {}, "annotations": {}},
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    return {**whole, **changes}


def pod(
    name: str, on: str, *, kind: str | None = "ReplicaSet", ready: bool = True, **spec: Any
) -> dict[str, Any]:
    """A pod of the Deployment `web`, unless another `kind` keeps it."""
    owner = {"kind": kind, "name": "web-5d9c" if kind == "ReplicaSet" else "web", "controller": True}
    return {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-of-{name}",
            "labels": {"pod-template-hash": "5d9c"},
            "annotations": {},
            "ownerReferences": [owner] if kind else [],
        },
        "spec": {
            "nodeName": on,
            "containers": [
                {
                    "name": "web",
                    "image": "web:1",
                    "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}},
                },
            ],
            **spec,
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [{"containerID": f"containerd://id-of-{name}"}],
        },
    }


@dataclass
class Fake:
    """What the API server knows, and what was asked of it."""

    nodes: dict[str, dict[str, Any]]
    pods: dict[str, dict[str, Any]]
    place: str = "b"
    """Where its scheduler puts what was evicted; empty leaves it pending."""
    budget: int = 1000
    """How many evictions are allowed."""
    evictions: list[dict[str, Any]] = field(default_factory=list)
    workloads: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By kind and name, such as `deployments/web`."""
    infeasible: str = ""
    """Why nodes cannot give pods what they should have."""
    starts: bool = True
    """Whether pods of a workload that is scaled become ready."""
    refuses: int = 0
    """The status with which it refuses requests about workloads."""

    async def list_nodes(self, _: web.Request) -> web.Response:
        return web.json_response({"kind": "NodeList", "items": list(self.nodes.values())})

    async def read_node(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self.nodes:
            return web.json_response({"message": f'nodes "{name}" not found'}, status=404)
        return web.json_response(self.nodes[name])

    async def patch_node(self, request: web.Request) -> web.Response:
        changed = self.nodes[request.match_info["name"]]
        _merge(changed, await request.json())
        return web.json_response(changed)

    async def list_pods(self, request: web.Request) -> web.Response:
        _, _, on = request.query.get("fieldSelector", "").partition("spec.nodeName=")
        listed = [each for each in self.pods.values() if on in {"", each["spec"]["nodeName"]}]
        return web.json_response({"kind": "PodList", "items": listed})

    async def evict(self, request: web.Request) -> web.Response:
        name = request.match_info["pod"]
        if len(self.evictions) >= self.budget:
            details = {"causes": [{"reason": "DisruptionBudget", "message": "it needs 2 healthy pods"}]}
            return web.json_response({"message": "Cannot evict pod", "details": details}, status=429)
        self.evictions.append(await request.json())
        old = self.pods.pop(name)
        if self.place:
            new = pod(f"web-{len(self.evictions) - 1}", self.place)
            self.pods[new["metadata"]["name"]] = {
                **new,
                "metadata": {
                    **old["metadata"],
                    "name": new["metadata"]["name"],
                    "uid": new["metadata"]["uid"],
                },
            }
        return web.json_response({"kind": "Status", "status": "Success"}, status=201)

    async def list_workloads(self, request: web.Request) -> web.Response:
        if self.refuses:
            return web.json_response({"message": "forbidden"}, status=self.refuses)
        kind = request.match_info["kind"]
        listed = [each for name, each in self.workloads.items() if name.startswith(f"{kind}/")]
        return web.json_response({"items": [self._counted(each) for each in listed]})

    def _counted(self, workload: dict[str, Any]) -> dict[str, Any]:
        count = len(self.pods)
        return {
            **workload,
            "status": {"replicas": count, "readyReplicas": count, "updatedReplicas": count},
        }

    async def workload(self, request: web.Request) -> web.Response:
        """Read or change a workload, or its scale; its controller follows at once."""
        key = f"{request.match_info['kind']}/{request.match_info['name']}"
        if self.refuses:
            return web.json_response({"message": "forbidden"}, status=self.refuses)
        if key not in self.workloads:
            return web.json_response({"message": f"{key} not found"}, status=404)
        workload = self.workloads[key]
        if request.method == "PATCH":
            change = await request.json()
            noted = change.get("metadata", {}).get("annotations", {})
            merged = {**workload["metadata"].get("annotations", {}), **noted}
            workload["metadata"]["annotations"] = {
                key: each for key, each in merged.items() if each is not None
            }
            if (replicas := change.get("spec", {}).get("replicas")) is not None:
                workload["spec"]["replicas"] = replicas
                self._follow(replicas)
        return web.json_response(self._counted(workload))

    def _follow(self, replicas: int) -> None:
        for name in list(self.pods)[replicas:]:
            del self.pods[name]
        for number in range(len(self.pods), replicas):
            self.pods[f"web-{number}"] = pod(f"web-{number}", self.place, ready=self.starts)

    async def resize(self, request: web.Request) -> web.Response:
        name = request.match_info["pod"]
        if name not in self.pods:
            return web.json_response({"message": "the server could not find it"}, status=404)
        changed = _resized(self.pods[name], (await request.json())["spec"])
        parts = zip(changed["status"]["containerStatuses"], changed["spec"]["containers"], strict=True)
        for status, container in parts:
            status["resources"] = container["resources"]
        if self.infeasible:
            changed["status"]["conditions"].append(
                {
                    "type": "PodResizePending",
                    "status": "True",
                    "reason": "Infeasible",
                    "message": self.infeasible,
                }
            )
        self.pods[name] = changed
        return web.json_response(changed)


def _resized(old: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    """Merge the resources of containers into a pod, by their names."""
    changed = copy.deepcopy(old)
    for change in spec["containers"]:
        (container,) = [each for each in changed["spec"]["containers"] if each["name"] == change["name"]]
        _merge(container["resources"], change["resources"])
    return changed


def _merge(into: dict[str, Any], change: dict[str, Any]) -> None:
    for key, value in change.items():
        if isinstance(value, dict):
            _merge(into.setdefault(key, {}), value)
        elif value is None:
            into.pop(key, None)
        else:
            into[key] = value


@asynccontextmanager
async def faking(fake: Fake, folder: Path, **settings: Any) -> AsyncIterator[Settings]:
    """Serve it, and give the settings of a driver that asks it."""
    app = web.Application()
    app.router.add_get("/api/v1/nodes", fake.list_nodes)
    app.router.add_get("/api/v1/nodes/{name}", fake.read_node)
    app.router.add_patch("/api/v1/nodes/{name}", fake.patch_node)
    app.router.add_get("/api/v1/pods", fake.list_pods)
    app.router.add_post("/api/v1/namespaces/shop/pods/{pod}/eviction", fake.evict)
    app.router.add_patch("/api/v1/namespaces/shop/pods/{pod}/resize", fake.resize)
    app.router.add_get("/apis/apps/v1/{kind}", fake.list_workloads)
    app.router.add_get("/apis/apps/v1/namespaces/shop/{kind}/{name}/scale", fake.workload)
    app.router.add_patch("/apis/apps/v1/namespaces/shop/{kind}/{name}/scale", fake.workload)
    app.router.add_patch("/apis/apps/v1/namespaces/shop/{kind}/{name}", fake.workload)
    async with serving(app, Address("127.0.0.1", 0), "fake") as address:
        file = folder / "kubeconfig"
        file.write_bytes(msgspec.yaml.encode(_kubeconfig(address.url)))
        yield Settings(name="kubernetes", kubeconfig=str(file), **settings)


def _kubeconfig(url: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "me"}}],
        "clusters": [{"name": "it", "cluster": {"server": url}}],
        "users": [{"name": "me", "user": {"token": "secret"}}],
    }

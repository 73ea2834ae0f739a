"""An API server as small as the driver needs, for the official client: no real one can be had here."""

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
                {"image": "web:1", "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}}},
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
            return web.json_response({"message": "Cannot evict pod"}, status=429)
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

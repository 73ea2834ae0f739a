"""Nodes of a mesh in their own process, for the benchmark of the mesh.

    python -m bench.network.mesh_node members URL FIRST COUNT
    python -m bench.network.mesh_node target KEY

`members` are COUNT nodes, numbered from FIRST, with peers and keys of the collector at URL. `target` is a
node with one peer, which is flooded. For each line on its standard input, a process prints its state.
"""

import asyncio
import json
import secrets
import sys
import time
from contextlib import AsyncExitStack

from agent.config import DeliveryConfig
from agent.features.mesh.endpoint import Endpoint, open_socket
from agent.features.mesh.exchange import Mesh, open_mesh
from agent.features.mesh.peers import Peers
from agent.features.mesh.settings import MeshConfig
from wire.address import Address
from wire.mesh import MeshPeer

PEER_SESSION = 4711
_LISTEN = MeshConfig(enabled=True, listen="127.0.0.1:0")


async def _print_states(**sources: object) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.readline():
        state = {name: source() if callable(source) else source for name, source in sources.items()}
        print(json.dumps(state | {"cpu_seconds": time.process_time()}), flush=True)


def _packets(meshes: list[Mesh]) -> int:
    return sum(mesh.endpoint.sent + mesh.endpoint.received for mesh in meshes)


def _measured(meshes: list[Mesh]) -> int:
    return sum(len(mesh.peers.results(time.monotonic())) for mesh in meshes)


async def _members(url: str, first: int, count: int) -> None:
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        meshes = []
        for number in range(first, first + count):
            mesh = await stack.enter_async_context(
                open_mesh(f"node{number}", _LISTEN, DeliveryConfig(url=url))
            )
            meshes.append(mesh)
            group.create_task(mesh.run())
        await _print_states(packets=lambda: _packets(meshes), measured=lambda: _measured(meshes))
        sys.exit()


async def _target(key: bytes) -> None:
    session, peers = secrets.randbits(63) or 1, Peers()
    bound = open_socket(Address("127.0.0.1", 0), session)
    endpoint = Endpoint(bound, session, peers)
    peers.assign([MeshPeer("peer", PEER_SESSION, 9, "127.0.0.1", key=key)], time.monotonic())
    await _print_states(
        session=session,
        port=bound.getsockname()[1],
        discarded=lambda: endpoint.discarded,
        answers=lambda: endpoint.sent,
        last_sequence=lambda: peers.by_node["peer"].last_sequence,
    )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["members", url, first, count]:
            asyncio.run(_members(url, int(first), int(count)))
        case ["target", key]:
            asyncio.run(_target(bytes.fromhex(key)))
        case _:
            sys.exit(__doc__)

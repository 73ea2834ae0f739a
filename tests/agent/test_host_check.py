"""A web page that made its own name point to the agent gets nothing."""

import socket
from pathlib import Path

import aiohttp
import pytest

from agent.config import AgentConfig, DeliveryConfig, DockerConfig, HostConfig, HttpConfig, StorageConfig
from agent.main import running
from tests.agent.trees import make_host, make_v2


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "0.0.0.0:0"])
async def test_a_foreign_host_name_is_refused(tmp_path: Path, listen: str) -> None:
    host = make_host(tmp_path)
    make_v2(host)
    config = AgentConfig(
        http=HttpConfig(listen=listen, names="metrics.example, other.example"),
        collector=DeliveryConfig(enabled=False),
        docker=DockerConfig(socket=""),
        storage=StorageConfig(directory=""),
        host=HostConfig(root=str(tmp_path)),
    )
    is_open = listen.startswith("0")
    async with running(config) as agent, aiohttp.ClientSession() as http:
        url = f"http://127.0.0.1:{agent.address.port}"

        async def ask(name: str, path: str = "/healthz") -> int:
            async with http.get(url + path, headers={"Host": name}) as answer:
                return answer.status

        for name in (
            "127.0.0.1",
            "127.0.0.1:9",
            "[::1]:9",
            "localhost",
            "metrics.example",
            "OTHER.example:80",
        ):
            assert (name, await ask(name)) == (name, 200)
        for path in ("/metrics", "/healthz"):
            for name in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", ""):
                assert (name, await ask(name, path)) == (name, 403)
        assert await ask("192.0.2.1") == (200 if is_open else 403)
        own = socket.gethostname().partition(".")[0]
        assert await ask(f"{own}.rack.example") == (200 if is_open else 403)

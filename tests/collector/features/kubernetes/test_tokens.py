from pathlib import Path

from collector.serve.web.scopes import Scope
from tests.collector.builders import JSON, settings
from tests.collector.serve.web.test_auth import add, guarding


async def test_a_reservation_needs_a_token_of_its_own_kind(tmp_path: Path) -> None:
    pod = b'{"Pod": {"metadata": {"name": "web", "namespace": "shop", "uid": "1"}}, "NodeNames": []}'
    async with guarding(tmp_path) as guarded:
        for verb in ("filter", "prioritize", "preempt"):
            path, options = f"/v1/kubernetes/{verb}", {"data": pod, "headers": dict(JSON)}
            assert (verb, await guarded.ask(path, guarded.read, "POST", **options)) == (verb, 403)
        options = {"data": b'{"reserve_seconds": 60}', "headers": dict(JSON)}
        assert await guarded.ask("/v1/hints/placement", guarded.read, "POST", **options) == 403


async def test_a_token_to_place_reserves_and_changes_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "tokens.jsonl"
    secret = add(path, Scope.PLACE, "kube-scheduler")
    async with guarding(tmp_path, settings(tokens=path)) as guarded:
        pod = b'{"Pod": {"metadata": {"name": "web", "namespace": "shop", "uid": "1"}}, "NodeNames": []}'
        for verb in ("filter", "prioritize"):
            options = {"data": pod, "headers": dict(JSON)}
            assert await guarded.ask(f"/v1/kubernetes/{verb}", secret, "POST", **options) == 200
        assert await guarded.ask("/v1/nodes", secret) == 200
        assert await guarded.ask("/v1/control", secret, "POST", data=b"{}", headers=dict(JSON)) in (403, 404)
        assert await guarded.report(secret, "alpha") == 403

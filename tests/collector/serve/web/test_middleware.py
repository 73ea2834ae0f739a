import pytest

from collector.common.errors import HistoryUnavailable
from collector.history.sqlite.history import History
from collector.observe.live_tables import LiveTables
from tests.collector.builders import Client, report
from wire.messages import encode


async def test_local_host_names_are_accepted(collector: Client) -> None:
    for host in ("localhost", "LOCALHOST:8640", "127.0.0.1:1", "127.9.9.9", "[::1]", "[::1]:8640"):
        status, problem = await collector.ask("/healthz", Host=host)
        assert (host, status) == (host, 200), problem


@pytest.mark.parametrize("path", ["/", "/v1/nodes", "/metrics", "/nowhere"])
async def test_foreign_host_names_are_rejected(collector: Client, path: str) -> None:
    for host in (
        "evil.example",
        "evil.example:8640",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "10.0.0.1:8640",
        "[::2]",
        "[::1",
        "0.0.0.0",
        "",
    ):
        status, problem = await collector.ask(path, Host=host)
        assert (host, status, problem["field"]) == (host, 403, "Host")


async def test_foreign_page_cannot_post(collector: Client) -> None:
    # What a browser sends across origins without asking first.
    for content_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        status, _ = await collector.post(encode([report()]), headers={"Content-Type": content_type})
        assert status == 415
    async with collector.http.options(collector.url + "/v1/reports") as answer:
        assert answer.status == 405
        assert "Access-Control-Allow-Origin" not in answer.headers
    assert await collector.nodes() == []


async def test_unknown_path_suggests_the_nearest(collector: Client) -> None:
    status, problem = await collector.ask("/v1/node")
    assert (status, problem["title"]) == (404, "Not Found")
    assert "did you mean /v1/nodes?" in problem["detail"]


async def test_wrong_method_lists_the_allowed_ones(collector: Client) -> None:
    async with collector.http.get(collector.url + "/v1/reports") as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, "POST")
        assert answer.content_type == "application/problem+json"
    status, problem = await collector.post(b"[]", path="/v1/nodes")
    assert (status, problem["status"]) == (405, 405)


async def test_responses_disable_caching_and_sniffing(collector: Client) -> None:
    async with collector.http.get(collector.url + "/v1/nodes") as answer:
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_internal_error_is_logged_and_a_problem_document(
    collector: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(LiveTables, "list_nodes", broken)
    status, problem = await collector.ask("/v1/nodes")
    assert (status, problem["status"]) == (500, 500)
    assert "ZeroDivisionError" in caplog.text


async def test_failing_disk_is_an_error_without_acknowledgement(
    collector: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object) -> None:
        raise HistoryUnavailable("the disk is full")

    with monkeypatch.context() as failing:
        failing.setattr(History, "add", full)
        failing.setattr(History, "check", full)
        async with collector.http.get(collector.url + "/readyz") as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
        status, problem = await collector.post(encode([report()]))
        assert (status, problem["detail"]) == (503, "the history is unavailable: the disk is full")
        assert await collector.nodes() == []
    assert (await collector.send(report())).accepted == 1

import pytest

from collector.history.interface import HistoryUnavailable
from collector.history.sqlite.history import SqliteHistory
from collector.live.registry import Registry
from tests.collector.builders import Client, report
from wire.messages import encode


async def test_names_of_this_host_get_in(collector: Client) -> None:
    for host in ("localhost", "LOCALHOST:8640", "127.0.0.1:1", "127.9.9.9", "[::1]", "[::1]:8640"):
        status, said = await collector.ask("/healthz", Host=host)
        assert (host, status) == (host, 200), said


@pytest.mark.parametrize("path", ["/", "/v1/nodes", "/metrics", "/nowhere"])
async def test_names_that_merely_point_here_do_not(collector: Client, path: str) -> None:
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
        status, said = await collector.ask(path, Host=host)
        assert (host, status, said["field"]) == (host, 403, "Host")


async def test_a_page_from_elsewhere_cannot_post(collector: Client) -> None:
    # What a browser sends across origins without asking first.
    for content_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        status, _ = await collector.post(encode([report()]), headers={"Content-Type": content_type})
        assert status == 415
    async with collector.http.options(collector.url + "/v1/reports") as answer:
        assert answer.status == 405
        assert "Access-Control-Allow-Origin" not in answer.headers
    assert await collector.nodes() == []


async def test_a_path_that_is_not_there_is_a_problem_with_the_nearest_one(collector: Client) -> None:
    status, said = await collector.ask("/v1/node")
    assert (status, said["title"]) == (404, "Not Found")
    assert "did you mean /v1/nodes?" in said["detail"]


async def test_a_wrong_method_is_a_problem_and_says_the_right_one(collector: Client) -> None:
    async with collector.http.get(collector.url + "/v1/reports") as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, "POST")
        assert answer.content_type == "application/problem+json"
    status, said = await collector.post(b"[]", path="/v1/nodes")
    assert (status, said["status"]) == (405, 405)


async def test_answers_are_never_kept_or_guessed_at_by_a_browser(collector: Client) -> None:
    async with collector.http.get(collector.url + "/v1/nodes") as answer:
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_a_bug_is_logged_and_answered_as_a_problem(
    collector: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Registry, "names", broken)
    status, said = await collector.ask("/v1/nodes")
    assert (status, said["status"]) == (500, 500)
    assert "ZeroDivisionError" in caplog.text


async def test_a_disk_that_fails_is_said_and_nothing_is_acknowledged(
    collector: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object) -> None:
        raise HistoryUnavailable("the disk is full")

    with monkeypatch.context() as failing:
        failing.setattr(SqliteHistory, "add", full)
        failing.setattr(SqliteHistory, "check", full)
        async with collector.http.get(collector.url + "/readyz") as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
        status, said = await collector.post(encode([report()]))
        assert (status, said["detail"]) == (503, "the history cannot be used now: the disk is full")
        assert await collector.nodes() == []
    assert (await collector.send(report())).taken == 1

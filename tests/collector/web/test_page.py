import re

from collector.web.page import page_and_policy
from tests.collector.builders import Client


async def test_page_has_a_strict_content_security_policy(collector: Client) -> None:
    async with collector.http.get(collector.url + "/") as answer:
        assert (answer.status, answer.content_type) == (200, "text/html")
        policy = answer.headers["Content-Security-Policy"]
        assert "Wattpack" in await answer.text()
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert len(re.findall(r"'sha256-[A-Za-z0-9+/]{43}='", policy)) == 2


def test_page_has_no_external_resources() -> None:
    text, _ = page_and_policy()
    assert re.findall(r"(?:src|href)=[\"'](?!data:)", text) == []
    assert [each for each in re.findall(r"https?://[^\"'\s]+", text) if "www.w3.org" not in each] == []
    assert len(re.findall(r"<script", text)) == len(re.findall(r"<style", text)) == 1


def test_page_never_inserts_markup() -> None:
    text, _ = page_and_policy()
    for dangerous in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        " style=",
        " onclick=",
    ):
        assert dangerous not in text

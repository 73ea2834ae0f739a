import gzip
import json
import re
from http import HTTPStatus
from importlib.resources import files

import pytest
from aiohttp import ClientResponse

from collector.common.extensions import feature_files
from collector.serve.web.page import load_page
from tests.collector.builders import Client

ASSETS = files("collector.serve.web").joinpath("assets")
TEXTS = {
    f"{folder}/{each.name}": each.read_text(encoding="utf-8")
    for folder in ("core", "views", "look")
    for each in ASSETS.joinpath(folder).iterdir()
} | {f"features/{name}.js": text.decode() for name, text in feature_files("page.js")}
SCRIPTS = {name: text for name, text in TEXTS.items() if name.endswith(".js")}


def code_of(script: str) -> str:
    """A script without its comments."""
    return re.sub(r"^\s*(//|/?\*).*$", "", script, flags=re.MULTILINE)


async def test_page_has_a_strict_content_security_policy(collector: Client) -> None:
    async with collector.http.get(collector.url + "/") as answer:
        assert (answer.status, answer.content_type) == (HTTPStatus.OK, "text/html")
        policy = answer.headers["Content-Security-Policy"]
        assert "Wattpack" in await answer.text()
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy
    sources = {each for part in policy.split("; ") for each in part.split()[1:]}
    assert sources == {"'none'", "'self'", "'script'"}


async def test_browsers_keep_files_for_good_and_ask_again_for_the_page(collector: Client) -> None:
    async with collector.http.get(collector.url + "/") as answer:
        assert answer.headers["Cache-Control"] == "no-cache"
        tag, text = answer.headers["ETag"], await answer.text()
    async with collector.http.get(collector.url + "/", headers={"If-None-Match": tag}) as answer:
        assert (answer.status, await answer.read()) == (HTTPStatus.NOT_MODIFIED, b"")
        assert "Content-Security-Policy" in answer.headers
    addresses = set(re.findall(r'(?:src|href)="(/page/[^"]+)"', text))
    assert {each.rpartition("/")[2] for each in addresses} >= {"main.js", "base.css", "icon.svg", "table.js"}
    for address in addresses:
        async with collector.http.get(collector.url + address) as answer:
            assert answer.status == HTTPStatus.OK, address
            assert "immutable" in answer.headers["Cache-Control"]
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            body = await answer.read()
        assert body.decode() == TEXTS["/".join(address.split("/")[-2:])]


@pytest.mark.parametrize(
    "path", ["/page/old/core/main.js", "/page/{version}/core/no.js", "/page/{version}/../core/main.js"]
)
async def test_a_file_that_the_page_does_not_have_is_not_found(collector: Client, path: str) -> None:
    path = path.replace("{version}", load_page().version)
    async with collector.http.get(collector.url + path) as answer:
        assert answer.status == HTTPStatus.NOT_FOUND
        assert "Content-Security-Policy" not in answer.headers


async def test_files_are_compressed_if_the_browser_allows_it(collector: Client) -> None:
    async def get(encoding: str) -> tuple[ClientResponse, bytes]:
        address = f"{collector.url}/page/{load_page().version}/look/base.css"
        headers = {"Accept-Encoding": encoding}
        async with collector.http.get(address, headers=headers, auto_decompress=False) as answer:
            return answer, await answer.read()

    (plain, text), (packed, body) = await get("identity"), await get("gzip, br")
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(body) == text
    assert len(body) < len(text) / 2


def test_page_has_no_external_resources() -> None:
    page = load_page()
    for name, text in {**TEXTS, "index": page.index.body.decode()}.items():
        found = [each for each in re.findall(r"https?://[^\"'\s`]+", text) if "www.w3.org" not in each]
        assert found == [], name
    assert re.findall(r"(?:src|href)=\"(?!/page/|#|/v1/)[^\"]*", page.index.body.decode()) == []


def test_page_has_no_inline_script_or_style() -> None:
    text = load_page().index.body.decode()
    assert re.findall(r"<style|<script(?![^>]*\ssrc=)|\son\w+=|\sstyle=", text) == []


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_never_make_markup_of_text(name: str) -> None:
    for dangerous in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
    ):
        assert dangerous not in code_of(SCRIPTS[name])


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_import_only_what_modules_export(name: str) -> None:
    folder = name.partition("/")[0]
    for names, path in re.findall(r"import \{([^}]+)\} from \"([^\"]+)\";", SCRIPTS[name]):
        target = path.replace("../", "") if path.startswith("../") else f"{folder}/{path.removeprefix('./')}"
        exported = set(re.findall(r"export (?:async )?(?:function|const|class) (\w+)", SCRIPTS[target]))
        wanted = {each.partition(" as ")[0].strip() for each in names.split(",")}
        assert wanted <= exported, target
        for each in wanted:
            assert len(re.findall(rf"\b{each}\b", SCRIPTS[name])) > 1, f"{each} is imported and not used"


def test_every_term_is_in_the_glossary() -> None:
    definitions = json.loads(TEXTS["core/glossary.json"])
    used = {
        each
        for text in SCRIPTS.values()
        for each in re.findall(r"\bterm\(\"([^\"]+)\"|\bterm: \"([^\"]+)\"", text)
    }
    words = {first or second for first, second in used}
    assert len(words) > 10
    assert words <= definitions.keys()


def test_the_token_is_neither_stored_nor_in_an_address() -> None:
    for name, script in SCRIPTS.items():
        assert "sessionStorage" not in script, name
        for line in code_of(script).splitlines():
            if "localStorage" in line:
                assert "THEME" in line, name

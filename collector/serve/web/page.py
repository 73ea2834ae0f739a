"""The web page: files of `assets/`, without external resources, enforced by a Content-Security-Policy.

A feature adds its cards by a script of its own, `page.js` in its folder.

The URL of a file contains a hash of all files, so browsers cache it forever and never mix versions.
"""

import gzip
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Annotated

import msgspec
from aiohttp import hdrs, web
from msgspec import Meta

from collector.common.errors import ApiError
from collector.common.extensions import feature_files
from collector.serve.web.routes import ResponseSpec, Route, get, parse_query, problem

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    # No script of the page can turn text into markup.
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_FOLDERS = ("core", "views", "look")
_TYPES = {
    "css": "text/css",
    "js": "text/javascript",
    "json": "application/json",
    "svg": "image/svg+xml",
}
_VERSION_LENGTH = 12
_FOREVER = "private, max-age=31536000, immutable"
_REVALIDATE = "no-cache"
_PRELOAD = "<!-- {preload} -->"
_FEATURES = "<!-- {features} -->"
_FEATURE_FOLDER = "features"


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file in the form in which it is sent."""

    content_type: str
    body: bytes
    compressed: bytes
    etag: str

    @classmethod
    def of(cls, content_type: str, body: bytes) -> "PageFile":
        etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        return cls(content_type, body, gzip.compress(body, mtime=0), etag)

    def response(self, request: web.Request, caching: str) -> web.Response:
        """The file, compressed if the browser accepts that; 304 if the browser has it already."""
        headers = {hdrs.ETAG: self.etag, hdrs.CACHE_CONTROL: caching, hdrs.VARY: hdrs.ACCEPT_ENCODING}
        if self.etag in request.headers.get(hdrs.IF_NONE_MATCH, ""):
            return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
        body = self.body
        if "gzip" in request.headers.get(hdrs.ACCEPT_ENCODING, ""):
            body, headers[hdrs.CONTENT_ENCODING] = self.compressed, "gzip"
        return web.Response(body=body, content_type=self.content_type, charset="utf-8", headers=headers)


@dataclass(frozen=True, slots=True)
class Page:
    """The page, its files by folder and name, and the version in their URLs."""

    version: str
    index: PageFile
    files: Mapping[tuple[str, str], PageFile]


@cache
def load_page() -> Page:
    """Read all files."""
    root = files("collector.serve.web").joinpath("assets")
    found = {(folder, each.name): each.read_bytes() for folder, each in _list_files(root)}
    found |= {(_FEATURE_FOLDER, f"{name}.js"): body for name, body in feature_files("page.js")}
    index = root.joinpath("index.html").read_text(encoding="utf-8")
    total = hashlib.sha256(index.encode())
    for (folder, name), body in sorted(found.items()):
        total.update(f"{folder}/{name} {len(body)}\n".encode() + body)
    version = total.hexdigest()[:_VERSION_LENGTH]
    # Otherwise a browser finds a module only after it has read the modules that import it.
    scripts = [f"{folder}/{name}" for folder, name in sorted(found) if name.endswith(".js")]
    preload = "\n".join(f'<link rel="modulepreload" href="/page/{{version}}/{each}">' for each in scripts)
    scripts = [f"{folder}/{name}" for folder, name in sorted(found) if folder == _FEATURE_FOLDER]
    features = "\n".join(
        f'<script type="module" src="/page/{{version}}/{each}"></script>' for each in scripts
    )
    text = index.replace(_PRELOAD, preload).replace(_FEATURES, features).replace("{version}", version)
    return Page(
        version,
        PageFile.of("text/html", text.encode()),
        {key: PageFile.of(_TYPES[key[1].rpartition(".")[2]], body) for key, body in found.items()},
    )


def _list_files(root: Traversable) -> Iterator[tuple[str, Traversable]]:
    for folder in _FOLDERS:
        for each in root.joinpath(folder).iterdir():
            if each.name.rpartition(".")[2] in _TYPES:
                yield folder, each


async def page(_context: object, request: web.Request) -> web.Response:
    """Open the web page: overview, nodes, services, containers, decisions, energy."""
    response = load_page().index.response(request, _REVALIDATE)
    response.headers["Content-Security-Policy"] = POLICY
    response.headers["Referrer-Policy"] = "no-referrer"
    return response


class PageFileQuery(msgspec.Struct, frozen=True):
    """Which file of the page."""

    version: Annotated[str, Meta(description="Version of the page; its own URLs contain it.")]
    folder: Annotated[str, Meta(description="Folder of the file.")]
    file: Annotated[str, Meta(description="Name of the file.")]


async def page_file(_context: object, request: web.Request) -> web.Response:
    """Get a script, style sheet, image or glossary of the web page."""
    query, current = parse_query(request, PageFileQuery), load_page()
    found = current.files.get((query.folder, query.file))
    if query.version != current.version or found is None:
        detail = "this file is not part of the page of this collector: reload the page"
        raise ApiError(HTTPStatus.NOT_FOUND, detail)
    return found.response(request, _FOREVER)


ROUTES: tuple[Route, ...] = (
    get("/", page, responds=ResponseSpec("The page.", content_type="text/html")),
    get(
        "/page/{version}/{folder}/{file}",
        page_file,
        query=PageFileQuery,
        responds=ResponseSpec("The file.", content_type="text/javascript"),
        problems=problem(HTTPStatus.NOT_FOUND, "The page of this collector has no such file."),
    ),
)

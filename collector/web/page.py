"""The web page: one file without external resources, enforced by a Content-Security-Policy."""

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

from aiohttp import web

_INLINE = re.compile(r"<(?P<tag>script|style)>(?P<text>.*?)</(?P=tag)>", re.DOTALL)


@cache
def page_and_policy() -> tuple[str, str]:
    """The page, and the Content-Security-Policy that allows only its own script and style."""
    text = files("collector.web").joinpath("page.html").read_text(encoding="utf-8")
    allowed = {found["tag"]: _hash(found["text"]) for found in _INLINE.finditer(text)}
    policy = (
        f"default-src 'none'; script-src {allowed['script']}; style-src {allowed['style']}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return text, policy


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


async def page(_context: object, _request: web.Request) -> web.Response:
    """Serve the page."""
    text, policy = page_and_policy()
    headers = {"Content-Security-Policy": policy, "Referrer-Policy": "no-referrer"}
    return web.Response(text=text, content_type="text/html", headers=headers)

"""A real headless browser, controlled over its DevTools protocol: scripts, keys, screenshots, errors."""

import asyncio
import base64
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.lab.parts import require

_START_SECONDS = 60.0
_RESPONSE_SECONDS = 60.0
_POLL_SECONDS = 0.05
_MAX_MESSAGE_BYTES = 200_000_000


class Tab:
    """One tab of a browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self._responses: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.problems: list[str] = []
        """Errors on the console, exceptions, blocked resources and violations of the security policy."""
        self.requests: list[str] = []
        """Addresses of all requests."""

    async def listen(self) -> None:
        """Receive messages until the browser ends."""
        async for message in self._socket:
            data = json.loads(message.data)
            if "id" in data:
                self._responses.pop(data["id"]).set_result(data)
            else:
                self._record(data["method"], data["params"])

    def _record(self, method: str, what: dict[str, Any]) -> None:
        match method:
            case "Network.requestWillBeSent":
                self.requests.append(what["request"]["url"])
            case "Runtime.exceptionThrown":
                details = what["exceptionDetails"]
                self.problems.append(details.get("exception", {}).get("description", details["text"]))
            case "Runtime.consoleAPICalled" if what["type"] in ("error", "warning", "assert"):
                self.problems.append(" ".join(str(each.get("value")) for each in what["args"]))
            case "Log.entryAdded" if what["entry"]["level"] in ("error", "warning"):
                self.problems.append(f"{what['entry']['text']} {what['entry'].get('url', '')}")

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol."""
        self._number += 1
        response = self._responses[self._number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        async with asyncio.timeout(_RESPONSE_SECONDS):
            done = await response
        assert "error" not in done, (method, done)
        result: dict[str, Any] = done["result"]
        return result

    async def open(self, url: str) -> None:
        """Open a page."""
        await self.call("Page.navigate", url=url)

    async def set_appearance(self, *, width: int = 1400, height: int = 900, dark: bool = False) -> None:
        """Set the size of the window, and the preferred colour scheme."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])

    async def run(self, script: str) -> Any:
        """Return the value of an expression, which may be a promise."""
        done = await self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    async def until(self, condition: str, seconds: float = 30.0) -> None:
        """Wait until an expression is true, or is an element."""
        end = time.monotonic() + seconds
        while not await self.run(f"Boolean({condition})"):
            assert time.monotonic() < end, f"never true: {condition}; problems: {self.problems}"
            await asyncio.sleep(_POLL_SECONDS)

    async def press(self, key: str, *, text: str | None = None) -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            typed = {"text": text} if text and kind == "keyDown" else {}
            await self.call("Input.dispatchKeyEvent", type=kind, key=key, **typed)

    async def type(self, text: str) -> None:
        """Type a text into the element that has the focus."""
        await self.call("Input.insertText", text=text)

    async def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Save the window, or the whole page, as a PNG file."""
        done = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        await asyncio.to_thread(path.write_bytes, base64.b64decode(done["data"]))


@asynccontextmanager
async def browsing(folder: Path) -> AsyncIterator[Tab]:
    """Run a browser with a fresh profile in a folder while the block runs."""
    require("browser")
    process = await asyncio.create_subprocess_exec(
        "chromium",
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--no-first-run",
        "--enable-precise-memory-info",
        "--remote-debugging-port=0",
        "--remote-allow-origins=*",
        f"--user-data-dir={folder}",
        "about:blank",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        port = await _port(process.stderr)
        draining = asyncio.create_task(process.stderr.read())
        async with aiohttp.ClientSession() as http:
            async with http.get(f"http://127.0.0.1:{port}/json/list") as response:
                [page] = [each for each in await response.json() if each["type"] == "page"]
            address = page["webSocketDebuggerUrl"]
            async with http.ws_connect(address, max_msg_size=_MAX_MESSAGE_BYTES) as socket:
                tab = Tab(socket)
                listening = asyncio.create_task(tab.listen())
                for domain in ("Page", "Runtime", "Log", "Network"):
                    await tab.call(f"{domain}.enable")
                # A headless window never has the focus.
                await tab.call("Emulation.setFocusEmulationEnabled", enabled=True)
                await tab.set_appearance()
                yield tab
                listening.cancel()
    finally:
        process.terminate()
        await process.wait()
    await draining


async def _port(log: asyncio.StreamReader) -> int:
    """Read the port of the protocol from the browser's log."""
    async with asyncio.timeout(_START_SECONDS):
        async for line in log:
            if found := re.search(rb"DevTools listening on ws://[^:]+:(\d+)/", line):
                return int(found[1])
    raise AssertionError("the browser ended before it listened")

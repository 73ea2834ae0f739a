"""The real command in a real terminal of the kernel's: what a person would see and press."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest

from tests.processes import wattpack
from tests.wattpack.top.scenes import container, node
from wire.resources import Quantities

pytestmark = pytest.mark.slow

REDRAW = "\x0c"
"""Ctrl-L: curses sends only what changed, so a test asks for all of it."""
PAGE_DOWN, DOWN = "\x1b[6~", "\x1bOB"
PATIENCE_SECONDS = 20.0
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][AB0]|\x1b[=>78]")
ANSWERS = {
    "/v1/nodes": {"nodes": [node()]},
    "/v1/containers": {
        "containers": [
            container(f"c{number:02}", Quantities(cpu_cores=number / 100), watts=100.0 - number)
            for number in range(40)
        ]
    },
    "/v1/alerts": {"alerts": []},
}


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = msgspec.json.encode(ANSWERS[self.path.partition("?")[0]])
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def collector() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class Terminal:
    """A terminal with the command in it."""

    def __init__(self, process: subprocess.Popen[bytes], keyboard: int, device: int) -> None:
        self.process = process
        self._keyboard = keyboard
        self._device = device

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self._device, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.process.send_signal(signal.SIGWINCH)

    def hang_up(self) -> None:
        """As when its window is closed."""
        os.close(self._keyboard)
        self._keyboard = -1

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._device)
        if self._keyboard >= 0:
            os.close(self._keyboard)

    def press(self, keys: str) -> None:
        os.write(self._keyboard, keys.encode())

    def shows(self, wanted: str) -> str:
        """All that was written until something is to be read on the screen."""
        return self._read(lambda text: re.search(wanted, text) is not None, f"no {wanted!r}")

    def rest(self) -> str:
        """All that was written until its end."""
        return self._read(lambda _: self.process.poll() is not None, "it did not end")

    def settings(self) -> list[object]:
        return termios.tcgetattr(self._device)

    def _read(self, enough: Callable[[str], bool], otherwise: str) -> str:
        raw = b""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            readable, _, _ = select.select([self._keyboard], [], [], 0.05)
            raw += os.read(self._keyboard, 65536) if readable else b""
            text = raw.decode(errors="replace")
            if not readable and enough(ESCAPES.sub(" ", text)):
                return text
        raise AssertionError(f"{otherwise}; it showed {raw!r}")


@contextmanager
def terminal(*arguments: str, lines: int = 24, columns: int = 80, **environment: str) -> Iterator[Terminal]:
    keyboard, device = pty.openpty()
    fcntl.ioctl(device, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("WATTPACK_", "NO_COLOR"))
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "wattpack", "top", *arguments],
        stdin=device,
        stdout=device,
        stderr=device,
        start_new_session=True,
        env={**kept, "TERM": "xterm", "LC_ALL": "C.UTF-8", **environment},
    )
    with closing(Terminal(process, keyboard, device)) as opened:
        yield opened


def test_keys_and_quit_restore_the_terminal(collector: str) -> None:
    with terminal("--collector", collector, "--interval", "60") as screen:
        before = screen.settings()
        screen.shows(r"1-16 of 40 containers by watts")
        screen.press("c" + REDRAW)
        by_cpu = screen.shows(r"of 40 containers by cpu")
        assert by_cpu.index("c39") < by_cpu.index("c38")
        screen.press("r" + REDRAW)
        backwards = screen.shows(r"by cpu, reversed")
        assert backwards.index("c00") < backwards.index("c01")
        screen.press("a" + PAGE_DOWN + DOWN + REDRAW)
        screen.shows(r"18-33 of 40 containers by name")
        screen.press("/c3\r" + REDRAW)
        screen.shows(r"1-10 of 10 containers by name, filter 'c3'")
        assert screen.settings() != before
        screen.press("q")
        end = screen.rest()
        assert screen.process.returncode == 0
        assert screen.settings() == before
        assert "\x1b[?1049l" in end, "the screen that was there before is back"
        assert "\x1b[?25h" in end or "\x1b[?12l\x1b[?25h" in end, "so is the cursor"


def test_resize(collector: str) -> None:
    with terminal("--collector", collector, "--interval", "60") as screen:
        screen.shows(r"1-16 of 40")
        screen.resize(lines=50, columns=140)
        screen.shows(r"1-40 of 40")
        screen.resize(lines=10, columns=40)
        screen.shows(r"1-7 of 40")
        screen.press("q")
        screen.rest()
        assert screen.process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_restore_the_terminal(collector: str, number: signal.Signals) -> None:
    with terminal("--collector", collector) as screen:
        before = screen.settings()
        screen.shows(r"of 40 containers")
        screen.process.send_signal(number)
        screen.rest()
        assert screen.process.returncode == 0
        assert screen.settings() == before


def test_closed_terminal_ends_it(collector: str) -> None:
    with terminal("--collector", collector) as screen:
        screen.shows(r"of 40 containers")
        screen.hang_up()
        assert screen.process.wait(PATIENCE_SECONDS) is not None


def test_colours_unless_no_color(collector: str) -> None:
    red_or_green = re.compile(r"\x1b\[[0-9;]*3[12]m")
    with terminal("--collector", collector) as screen:
        assert red_or_green.search(screen.shows(r"of 40 containers"))
    with terminal("--collector", collector, NO_COLOR="1") as screen:
        assert not red_or_green.search(screen.shows(r"of 40 containers"))


def test_unreachable_collector_leaves_a_clean_terminal() -> None:
    with terminal("--collector", "http://127.0.0.1:1") as screen:
        before = screen.settings()
        end = screen.rest()
        assert screen.process.returncode == 2
        assert screen.settings() == before
    assert re.search(
        r"\x1b\[\?1049l.*wattpack: the collector at http://127.0.0.1:1 does not answer", end, re.DOTALL
    )


def test_unknown_terminal_is_a_user_error(collector: str) -> None:
    with terminal("--collector", collector, TERM="no-such-terminal") as screen:
        end = screen.rest()
        assert screen.process.returncode == 2
    assert "wattpack: cannot draw on this terminal (TERM=no-such-terminal" in end
    assert "Traceback" not in end


def test_pipe_prints_one_scene(collector: str) -> None:
    ended = wattpack("top", "--collector", collector, "--sort", "name").run()
    assert ended.returncode == 0, ended.stderr
    assert re.findall(r"^c\d\d", ended.stdout, re.MULTILINE) == [f"c{number:02}" for number in range(40)]
    assert "\x1b" not in ended.stdout


def test_top_as_json(collector: str) -> None:
    ended = wattpack("top", "--collector", collector, "--json").run()
    assert ended.returncode == 0, ended.stderr
    seen = json.loads(ended.stdout)
    assert [each["name"] for each in seen["nodes"]] == ["web1"]
    assert len(seen["containers"]) == 40

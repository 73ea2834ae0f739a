"""The terminal: curses for keys and output, asyncio for updates."""

import asyncio
import curses
import locale
import os
import signal
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager, suppress

from wattpack.top.scene import Scene
from wattpack.top.screen import draw
from wattpack.top.spans import Line, Style
from wattpack.top.view import View, Viewport, press
from wire.errors import UserError

_KEYS: Mapping[int | str, str] = {
    curses.KEY_UP: "up",
    curses.KEY_DOWN: "down",
    curses.KEY_PPAGE: "page up",
    curses.KEY_NPAGE: "page down",
    curses.KEY_HOME: "home",
    curses.KEY_END: "end",
    curses.KEY_ENTER: "enter",
    "\n": "enter",
    "\r": "enter",
    curses.KEY_BACKSPACE: "backspace",
    "\x7f": "backspace",
    "\b": "backspace",
    "\x1b": "escape",
}
_REDRAW = "\x0c"
_ESCAPE_MILLISECONDS = 25
"""Long enough for the rest of an arrow key to arrive, too short to be noticed after Esc."""


async def show(scenes: AsyncGenerator[Scene, None], view: View) -> None:
    """Draw each scene and handle keys until the user quits."""
    with _opened() as window:
        shell = _Shell(window, view)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, shell.ended.set)
        loop.add_signal_handler(signal.SIGWINCH, shell.resize)
        loop.add_reader(sys.stdin, shell.read_keys)
        following = asyncio.create_task(shell.follow(scenes))
        ending = asyncio.create_task(shell.ended.wait())
        try:
            done, _ = await asyncio.wait((following, ending), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            loop.remove_reader(sys.stdin)
            ending.cancel()
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following


class _Shell:
    """The last scene and the current view on the screen."""

    def __init__(self, window: "curses.window", view: View) -> None:
        self.ended = asyncio.Event()
        self._window = window
        self._view = view
        self._viewport = Viewport(0, 0)
        self._scene: Scene | None = None
        self._attributes = _attributes()
        self._write(((("sampling ...", Style.FAINT),),))

    async def follow(self, scenes: AsyncGenerator[Scene, None]) -> None:
        async for scene in scenes:
            self._scene = scene
            self._draw()

    def read_keys(self) -> None:
        """Handle the keys pressed so far."""
        keys = list(iter(self._key, None))
        if not keys and not os.isatty(sys.stdin.fileno()):
            # The terminal is closed: stdin stays readable and returns nothing.
            self.ended.set()
        for key in keys:
            view = press(self._view, key, self._viewport)
            if view is None:
                self.ended.set()
                return
            self._view = view
        # Another program may have overwritten the screen; curses sends only its own changes.
        self._window.clearok(_REDRAW in keys)
        self._draw()

    def resize(self) -> None:
        """Adapt to the new size of the terminal."""
        size = os.get_terminal_size()
        curses.resizeterm(size.lines, size.columns)
        self._window.clear()
        self._draw()

    def _key(self) -> str | None:
        try:
            key = self._window.get_wch()
        except curses.error:
            return None
        return _KEYS.get(key, key if isinstance(key, str) else "")

    def _draw(self) -> None:
        if self._scene is None:
            return
        height, width = self._window.getmaxyx()
        screen = draw(self._scene, self._view, width, height)
        self._viewport = screen.viewport
        self._write(screen.lines)

    def _write(self, lines: tuple[Line, ...]) -> None:
        self._window.erase()
        encoding = self._window.encoding
        for y, line in enumerate(lines):
            x = 0
            for text, style in line:
                showable = text.encode(encoding, "replace").decode(encoding)
                # Writing the last cell raises an error, although it succeeds.
                with suppress(curses.error):
                    self._window.addstr(y, x, showable, self._attributes[style])
                x += len(text)
        self._window.refresh()


@contextmanager
def _opened() -> Iterator["curses.window"]:
    """Take over the terminal, and restore it at the end."""
    locale.setlocale(locale.LC_ALL, "")
    try:
        window = curses.initscr()
    except curses.error as error:
        raise UserError(
            f"cannot draw on this terminal (TERM={os.environ.get('TERM', '')}: {error});"
            " set TERM to its type, or use --once"
        ) from None
    try:
        curses.noecho()
        curses.cbreak()
        curses.set_escdelay(_ESCAPE_MILLISECONDS)
        with suppress(curses.error):
            curses.curs_set(0)
        window.keypad(True)  # noqa: FBT003 - the library's own signature
        window.nodelay(True)  # noqa: FBT003 - the same
        yield window
    finally:
        window.keypad(False)  # noqa: FBT003 - the same
        curses.nocbreak()
        curses.echo()
        curses.endwin()


_LOOKS: Mapping[Style, tuple[int, int | None]] = {
    Style.PLAIN: (curses.A_NORMAL, None),
    Style.TITLE: (curses.A_BOLD, None),
    Style.HEAD: (curses.A_REVERSE, None),
    Style.SORTED: (curses.A_REVERSE | curses.A_BOLD, curses.COLOR_CYAN),
    Style.FAINT: (curses.A_DIM, None),
    Style.GOOD: (curses.A_NORMAL, curses.COLOR_GREEN),
    Style.WARM: (curses.A_NORMAL, curses.COLOR_YELLOW),
    Style.HOT: (curses.A_BOLD, curses.COLOR_RED),
}
"""The attribute and the colour of each style."""


def _attributes() -> Mapping[Style, int]:
    attributes = {style: attribute for style, (attribute, _) in _LOOKS.items()}
    if os.environ.get("NO_COLOR") or not curses.has_colors():
        return attributes
    curses.start_color()
    curses.use_default_colors()
    for pair, (style, (attribute, colour)) in enumerate(_LOOKS.items(), start=1):
        if colour is not None:
            curses.init_pair(pair, colour, -1)
            attributes[style] = curses.color_pair(pair) | attribute
    return attributes

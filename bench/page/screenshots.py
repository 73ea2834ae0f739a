"""Take the screenshots of README and docs from a seeded demo: `python -m bench.page.screenshots [DIR]`.

Pictures have two widths, light and dark, and a palette of at most 256 colours, so that they stay small.
"""

import asyncio
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.page.demo import running_demo
from bench.page.png import with_palette
from tests.lab.browser import Tab, browsing

_WIDE, _PHONE = (1400, 900), (390, 844)
_MAX_BYTES = 200_000
_COLOURS = (256, 128, 64)
_SETTLE_SECONDS = 60.0
"""Time until the demo has resolved its first bottleneck and the mesh has measured all distances."""


@dataclass(frozen=True, slots=True)
class Shot:
    """One screenshot."""

    name: str
    route: str
    ready: str
    """An expression that is true once the view has its data."""
    size: tuple[int, int] = _WIDE
    dark: bool = False


_CHART = "document.querySelector('[data-testid=\"cluster-chart\"] svg path')"
_OVERVIEW = (
    f"{_CHART} && document.querySelector('[data-testid=\"energy-services\"] li')"
    " && document.querySelector('[data-testid=\"last-decisions\"] li')"
)
SHOTS = (
    Shot("page.png", "", _OVERVIEW),
    Shot("page-dark.png", "", _OVERVIEW, dark=True),
    Shot("page-phone.png", "", _OVERVIEW, size=_PHONE),
    Shot("page-phone-dark.png", "", _OVERVIEW, size=_PHONE, dark=True),
    Shot(
        "page-nodes.png", "nodes", "document.querySelectorAll('[data-testid=\"nodes-rows\"] tr').length > 5"
    ),
    Shot(
        "page-energy.png",
        "energy?by=service&span=30d",
        "document.querySelector('[data-testid=\"energy-rows\"] tr')",
    ),
    Shot("page-decisions.png", "decisions", "document.querySelector('[data-testid=\"decisions\"] *')"),
)


def main(folder: Path) -> None:
    """Write all pictures into a folder."""
    with running_demo(20, 200, "--seed", "7") as url:
        asyncio.run(_take(url, folder))


async def _take(url: str, folder: Path) -> None:
    await asyncio.sleep(_SETTLE_SECONDS)
    with tempfile.TemporaryDirectory() as profile:
        async with browsing(Path(profile)) as tab:
            for shot in SHOTS:
                path = folder / shot.name
                await _shoot(tab, url, shot, path)
                size = _shrink(path)
                print(f"{path}: {shot.size[0]} x {shot.size[1]}, {size / 1000:.0f} kB")


async def _shoot(tab: Tab, url: str, shot: Shot, path: Path) -> None:
    width, height = shot.size
    await tab.set_appearance(width=width, height=height, dark=shot.dark)
    await tab.open("about:blank")
    await tab.open(f"{url}/#/{shot.route}")
    await tab.until(shot.ready, 60)
    # Sparklines and fonts load later.
    await asyncio.sleep(2.0)
    await tab.screenshot(path)


def _shrink(path: Path) -> int:
    """Reduce the colours of a picture until it is small enough; returns its size in bytes."""
    picture = path.read_bytes()
    body = picture
    for colours in _COLOURS:
        body = with_palette(picture, colours)
        if len(body) <= _MAX_BYTES:
            break
    path.write_bytes(body)
    return len(body)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "docs")

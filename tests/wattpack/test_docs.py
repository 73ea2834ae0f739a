import re
import tomllib
from itertools import takewhile
from pathlib import Path
from pkgutil import resolve_name

import pytest

from collector.serve.api.table import ROUTES
from wattpack.docs import PAGES, SECTIONS, with_section

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", PAGES)
def test_generated_pages_are_up_to_date(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == PAGES[name](), "run ./dev docs"


@pytest.mark.parametrize("name", SECTIONS)
def test_a_generated_section_matches_the_code(name: str) -> None:
    page, section = (ROOT / name).read_text(encoding="utf-8"), SECTIONS[name]()
    assert section in page, "run ./dev docs"
    assert with_section(page, section) == page


def test_reference_covers_every_route_parameter_and_type() -> None:
    text = PAGES["docs/api.md"]()
    for route in ROUTES:
        assert f"## `{route.method} {route.path}`" in text
        for parameter in route.query.__struct_fields__:
            assert f"| `{parameter}` |" in text
    for name in (
        "Report",
        "Receipt",
        "Node",
        "Container",
        "ClusterAlert",
        "NodeEvent",
        "WhatIfRequest",
        "WhatIfResult",
        "Mean",
        "Problem",
        "Quantities",
    ):
        assert f"### {name}\n" in text


ARCHITECTURE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")


def part(heading: str) -> str:
    return re.split(r"\n#+ ", ARCHITECTURE.partition(f"# {heading}\n")[2], maxsplit=1)[0]


@pytest.mark.parametrize(
    ("heading", "most_hops"),
    [("A sample from /proc to a Swarm move", 30), ("A placement hint from socket to answer", 12)],
)
def test_each_hop_of_a_walk_is_a_function(heading: str, most_hops: int) -> None:
    hops = re.findall(r"^\d+\. `([\w.]+)`", part(heading), re.MULTILINE)
    assert 0 < len(hops) <= most_hops
    for hop in hops:
        assert callable(resolve_name(hop)), hop


def test_each_place_for_a_new_thing_exists() -> None:
    paths = re.findall(r"`(\w+/[\w./]+)`", part("Where a new thing goes"))
    assert paths
    for path in paths:
        assert (ROOT / re.sub(r"NAME.*", "", path)).exists(), path


def test_the_folders_are_listed_in_the_order_of_the_import_contracts() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    listed = part("Packages")
    for contract in contracts["contracts"]:
        for package in contract.get("containers", ()):
            top, _, nested = package.partition(".")
            rows = listed.partition(f"\n{top}/\n")[2].partition("\n\n")[0].splitlines()
            indent = "  "
            if nested:
                rows, indent = (
                    rows[[row.startswith(f"  {nested}/") for row in rows].index(True) + 1 :],
                    "    ",
                )
                rows = list(takewhile(lambda row: row.startswith("    "), rows))
            starts = [row[:17] for row in rows if row.startswith(indent) and row[len(indent)] != " "]
            names = re.findall(r"(\w+)(?:/|\.py)", "\n".join(starts))
            layers = [each for layer in contract["layers"] for each in layer.split(" | ")]
            assert names == [layer for layer in layers if layer != "__main__"], package

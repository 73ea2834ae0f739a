from typing import Any

import pytest

from wattpack.commands.lists import node_columns


def node(generation: str = "any", **refused: int) -> dict[str, Any]:
    return {
        "name": "web1",
        "state": "up",
        "last_seen_seconds_ago": 3.0,
        "power": None,
        "used_ratio": {"cpu_ratio": 0.25},
        "containers": 2,
        "placement": {"region": "LEE", "generation": generation},
        "refused": refused,
    }


@pytest.mark.parametrize(
    ("nodes", "optional", "cells"),
    [
        ([node()], (), ()),
        ([node(), node("old")], ("GENERATION",), ("any",)),
        ([node(), node("old", labels=3)], ("GENERATION", "REFUSED"), ("any", "-")),
    ],
)
def test_optional_columns_are_shown_if_a_node_differs_from_the_default(
    nodes: list[dict[str, Any]], optional: tuple[str, ...], cells: tuple[str, ...]
) -> None:
    columns = node_columns(nodes)
    assert tuple(columns)[8:] == optional
    assert tuple(cell(nodes[0]) for cell in columns.values())[7:] == ("underused", *cells)

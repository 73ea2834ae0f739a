import os
import re
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wattpack.top.scenes import GIBIBYTE, alert, container, node, scene
from wattpack.top.rows import rows_of
from wattpack.top.scene import Container, Scene
from wattpack.top.screen import draw, draw_all
from wattpack.top.spans import Style
from wattpack.top.view import SORTS, View
from wire.messages import Pressure
from wire.resources import Quantities

WIDE = 140
UNHURRIED = settings(deadline=None)
"""What holds is asked here, and not how fast: a busy machine may stop us for a while."""


def names(shown: Scene, view: View) -> list[str]:
    return [row.name for row in rows_of(shown, view)]


def lines(shown: Scene, view: View = View(), width: int = 80, height: int = 24) -> list[str]:  # noqa: B008 - immutable
    return draw(shown, view, width, height).text.splitlines()


def style_of(shown: Scene, text: str, view: View = View()) -> Style:  # noqa: B008 - immutable
    spans = [span for line in draw(shown, view, WIDE, 24).lines for span in line]
    (style,) = {style for piece, style in spans if text in piece}
    return style


# --- The header ------------------------------------------------------------------------------


def test_header_shows_usage_and_power() -> None:
    shown = lines(scene(container("a"), container("b"), alerts=(alert(),)))
    assert re.fullmatch(r"web1: 4 cores, 8\.0 GiB, 2 containers +1 alert, 1 gap, \d\d:\d\d:\d\d", shown[0])
    assert len(shown[0]) == 80
    assert re.fullmatch(r"CPU     \[\|{8} {14}\]  38%  1\.50 of 4 cores  +pressure 61%", shown[1])
    assert re.fullmatch(r"MEMORY  \[\|+ +\]  25%  2\.0 GiB of 8\.0 GiB +pressure 2%", shown[2])
    assert re.fullmatch(r"DISK    \[\|+ +\]  34%  4\.0 KiB/s +pressure 30%", shown[3])
    assert re.fullmatch(r"NETWORK \[\|+ +\]  10%  11\.9 MiB/s of 119\.2 MiB/s", shown[4])
    assert shown[5] == "POWER   41.20 W ±20.60 wall, prior = idle 38.00 + system 2.00 + containers 1.20"
    assert shown[6] == "! CPU at 97 % of 4 cores for 12 s"


def test_learned_capacity_has_no_percentage() -> None:
    learned = msgspec.structs.replace(node(), learned_capacities=("network",))
    (line,) = (line for line in lines(scene(nodes=(learned,))) if line.startswith("NETWORK"))
    assert re.fullmatch(r"NETWORK \[ +\]    -  11\.9 MiB/s", line)


def test_unknown_values_are_dashes() -> None:
    blank = msgspec.structs.replace(
        node(), used=Quantities(), pressure=Pressure(), disk_busy_ratio=None, power=None
    )
    shown = lines(scene(container("new", Quantities(memory_bytes=0), watts=None), nodes=(blank,)))
    assert [line.split("]")[1].split()[:2] for line in shown[1:5]] == [["-", "-"]] * 4
    assert shown[5] == "POWER   -"
    assert shown[7].split() == ["new", "-", "0", "B", "-", "-", "-", "-"]


def test_header_sums_nodes_that_are_not_down() -> None:
    three = (node("web1"), node("web2", cores=2.5), node("web3", state="down"))
    shown = lines(scene(nodes=three))
    assert shown[0].startswith("3 nodes, 1 down: 8 cores, 16.0 GiB, no containers")
    assert "4.00 of 8 cores" in shown[1]
    assert "82.40 W ±41.20 wall, prior = idle 76.00 + system 4.00" in shown[5]


def test_capacity_with_an_unknown_part_is_unknown() -> None:
    unknown = msgspec.structs.replace(node("web2"), capacity=Quantities(4.0, 8 * GIBIBYTE))
    (line,) = (line for line in lines(scene(nodes=(node(), unknown))) if line.startswith("NETWORK"))
    assert re.fullmatch(r"NETWORK \[ +\]    -  23\.8 MiB/s", line)


def test_scene_without_nodes() -> None:
    assert "No node has reported yet." in lines(Scene(at=0.0))


def test_meters_and_alerts_are_coloured_by_state() -> None:
    cool = scene(nodes=(node(cores=1.0),))
    assert style_of(cool, "[|||") is Style.GOOD
    assert Style.WARM in {span[1] for span in draw(scene(nodes=(node(cores=3.0),)), View(), 80, 24).lines[1]}
    assert Style.HOT in {span[1] for span in draw(scene(nodes=(node(cores=3.9),)), View(), 80, 24).lines[1]}
    assert style_of(scene(alerts=(alert("short of it"),)), "short of it") is Style.HOT


def test_alerts_are_limited_and_counted() -> None:
    many = tuple(alert(f"CPU {number} " + "so busy " * 30, on=f"web{number}") for number in range(9))
    shown = lines(scene(container("still-there"), nodes=(node(), node("web2")), alerts=many))
    wrong = [line for line in shown if line.startswith("!")]
    assert [line[:13] for line in wrong[:-1]] == ["! web0: CPU 0", "! web1: CPU 1", "! web2: CPU 2"]
    assert wrong[-1] == "! 6 more in a taller window"
    assert any(line.startswith("still-there") for line in shown)


def test_problem_is_shown_above_the_last_scene() -> None:
    stale = msgspec.structs.replace(scene(container("web")), problem="the collector does not answer")
    shown = lines(stale)
    assert "! the collector does not answer" in shown
    assert any(line.startswith("web ") for line in shown)


# --- The table -------------------------------------------------------------------------------

VARIED = scene(
    container("a", Quantities(0.1, 300, 20.0, 1.0), watts=3.0),
    container("b", Quantities(0.3, 100, 10.0, None), watts=None),
    container("c", Quantities(None, 200, 30.0, 2.0), watts=1.0),
)


@pytest.mark.parametrize(
    ("sort", "order", "reversed_order"),
    [
        ("cpu", "bac", "abc"),
        ("memory", "acb", "bca"),
        ("disk", "cab", "bac"),
        ("network", "cab", "acb"),
        ("watts", "acb", "cab"),
        ("name", "abc", "cba"),
        ("pressure", "abc", "abc"),
    ],
)
def test_unknown_values_sort_last_in_either_direction(sort: str, order: str, reversed_order: str) -> None:
    assert names(VARIED, View(sort=sort)) == list(order)
    assert names(VARIED, View(sort=sort, reverse=True)) == list(reversed_order)


def test_pressure_shows_the_highest_resource() -> None:
    waiting = msgspec.structs.replace(container("waiting"), pressure=Pressure(0.1, 0.7, None))
    calm = msgspec.structs.replace(container("calm"), pressure=Pressure(0.3, 0.0, 0.2))
    assert names(scene(calm, waiting), View(sort="pressure")) == ["waiting", "calm"]
    shown = lines(scene(calm, waiting), View(sort="pressure"))
    assert any(re.search(r"^waiting .*70% mem", line) for line in shown)


def test_filter_matches_names_and_services_ignoring_case() -> None:
    mixed = scene(container("web-1"), container("db"), container("x", service="Shop-Web"))
    assert names(mixed, View(sort="name", filter="WEB")) == ["web-1", "x"]
    shown = lines(mixed, View(filter="absent"))
    assert any("No name contains 'absent'" in line for line in shown)


def test_tab_shows_nodes() -> None:
    two = scene(container("c"), nodes=(node("web1", cores=1.0), node("web2", cores=2.0)))
    assert names(two, View(sort="cpu", nodes=True)) == ["web2", "web1"]
    assert "1-2 of 2 nodes by cpu" in lines(two, View(sort="cpu", nodes=True))[-1]


def test_node_column_only_with_several_nodes() -> None:
    one, two = scene(container("c")), scene(container("c"), nodes=(node(), node("web2")))
    assert re.search(r"^c +0\.50", draw(one, View(), 100, 24).text, re.MULTILINE)
    assert re.search(r"^c +web1 +0\.50", draw(two, View(), 100, 24).text, re.MULTILINE)


@pytest.mark.parametrize("state", ["suspect", "down"])
def test_containers_of_a_stale_node_are_faint(state: str) -> None:
    quiet = scene(container("old"), nodes=(node(state=state),))
    assert style_of(quiet, "old ") is Style.FAINT
    assert style_of(scene(container("new")), "new ") is Style.PLAIN


def test_sorted_column_is_marked_and_never_dropped() -> None:
    for sort in SORTS.values():
        head = next(
            line
            for line in draw(scene(container("c", service="s")), View(sort=sort), 45, 24).lines
            if line[0][0].startswith("NAME")
        )
        assert [style for _, style in head].count(Style.SORTED) == 1


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (160, "NAME CORES OF NODE MEMORY DISK/s NETWORK/s POWER PRESSURE SERVICE"),
        (100, "NAME CORES MEMORY DISK/s NETWORK/s POWER PRESSURE SERVICE"),
        (80, "NAME CORES MEMORY DISK/s NETWORK/s POWER PRESSURE"),
        (60, "NAME CORES MEMORY DISK/s POWER"),
        (30, "NAME POWER"),
    ],
)
def test_columns_are_dropped_in_order(width: int, columns: str) -> None:
    shown = lines(scene(container("c", service="shop")), width=width)
    head = next(line for line in shown if line.startswith("NAME"))
    assert head.split() == columns.split()


def test_long_names_use_spare_width_and_keep_their_end() -> None:
    twins = scene(container("shop-frontend.1.x8s7df6a"), container("shop-frontend.2.k3j4h5g6"))
    narrow = "\n".join(lines(twins))
    assert "shop-fron…df6a" in narrow
    assert "shop-fron…h5g6" in narrow
    assert "shop-frontend.1.x8s7df6a" in "\n".join(lines(twins, width=120))


def test_control_characters_in_names_are_escaped() -> None:
    evil = scene(container("a\x1b[2Jb\n"), nodes=(node("n\x1b[H"),), alerts=(alert("x\x1b[31m"),))
    assert "\x1b" not in draw(evil, View(), 120, 24).text
    assert r"a\u001b[2Jb\n" in draw(evil, View(), 120, 24).text


# --- The footer, and the whole ---------------------------------------------------------------


def test_footer_shows_rows_order_and_help_key() -> None:
    many = scene(*(container(f"c{number:02}") for number in range(40)))
    footer = lines(many)[-1]
    assert re.fullmatch(r"1-16 of 40 containers by watts +\? help, q quit", footer)
    assert len(footer) == 80
    view = View(sort="name", reverse=True, filter="c", first=24)
    assert lines(many, view)[-1].startswith("25-40 of 40 containers by name, reversed, filter 'c'")
    assert lines(many, View(filter="c1", typing=True))[-1].startswith("filter: c1_")


def test_help_lists_every_key_below_the_table() -> None:
    shown = draw(scene(container("web")), View(help=True), 80, 24).text
    assert all(f"{key} {word}" in " ".join(shown.split()) for key, word in SORTS.items())
    assert "q: quit" in shown
    assert "\nweb " in shown


def test_scrolling_moves_only_the_table() -> None:
    many = scene(*(container(f"c{number:02}") for number in range(40)))
    top, down = lines(many, View(sort="name")), lines(many, View(sort="name", first=5))
    assert top[:7] == down[:7]
    assert top[7].startswith("c00")
    assert down[7].startswith("c05")


def test_low_screen_drops_the_meters() -> None:
    shown = lines(scene(container("web")), height=8)
    assert not any(line.startswith("CPU") for line in shown)
    assert any(line.startswith("web") for line in shown)


def test_pipe_has_all_rows_and_no_footer() -> None:
    printed = draw_all(
        scene(*(container(f"c{number:03}") for number in range(200))), View(), os.terminal_size((100, 300))
    )
    assert len(re.findall(r"^c\d{3} ", printed, re.MULTILINE)) == 200
    assert "help" not in printed
    assert draw_all(scene(), View(), os.terminal_size((100, 300))).endswith("No running containers.")


SHARE = st.one_of(st.none(), st.floats(0, 2))
AMOUNTS = st.builds(
    Quantities,
    cpu_cores=st.one_of(st.none(), st.floats(0, 1e4)),
    memory_bytes=st.one_of(st.none(), st.integers(0, 2**50)),
    disk_bytes_per_second=st.one_of(st.none(), st.floats(0, 1e15)),
    network_bytes_per_second=st.one_of(st.none(), st.floats(0, 1e15)),
)
CONTAINERS = st.builds(
    Container,
    node=st.sampled_from(["web1", "web2", "gone"]),
    id=st.just("0" * 64),
    name=st.text(max_size=40),
    service=st.one_of(st.none(), st.text(max_size=40)),
    used=AMOUNTS,
    pressure=st.builds(Pressure, SHARE, SHARE, SHARE),
)
VIEWS = st.builds(
    View,
    sort=st.sampled_from(sorted(SORTS.values())),
    reverse=st.booleans(),
    filter=st.text(max_size=3),
    typing=st.booleans(),
    first=st.integers(0, 50),
    nodes=st.booleans(),
    help=st.booleans(),
)


@UNHURRIED
@given(
    st.lists(CONTAINERS, max_size=30),
    st.integers(0, 3),
    st.lists(st.text(max_size=200), max_size=4),
    VIEWS,
    st.integers(1, 200),
    st.integers(1, 60),
)
def test_lines_always_fit_the_screen(  # noqa: PLR0913, PLR0917 - everything that shapes a screen
    containers: list[Container], nodes: int, wrong: list[str], view: View, width: int, height: int
) -> None:
    shown = Scene(
        at=0.0,
        nodes=tuple(node(f"web{number}") for number in range(1, nodes + 1)),
        containers=tuple(containers),
        alerts=tuple(alert(text) for text in wrong),
    )
    screen = draw(shown, view, width, height)
    assert len(screen.lines) <= height
    assert all(sum(len(text) for text, _ in line) <= width for line in screen.lines)
    assert screen.viewport.visible <= height
    again = replace(view, first=screen.viewport.clamp(view.first))
    assert draw(shown, again, width, height) == screen


def test_a_terminal_gets_as_many_rows_as_fit() -> None:
    many = scene(*(container(f"c{number}") for number in range(60)))
    lines = draw_all(many, View(), os.terminal_size((80, 24))).splitlines()
    assert len(lines) < 24
    assert all(len(line) <= 80 for line in lines)
    assert lines[-1].startswith("... and ")

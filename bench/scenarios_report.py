"""What replays of scenarios came to, as numbers that are kept and as a page that is made from them alone."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from bench.markdown import table_head, table_row
from replay.reporting.references import Beside, asked, name_of, notes, shown
from replay.setup.scenario import Scenario
from replay.simulation.compare import Comparison
from replay.simulation.results import PolicyResult
from wire.resources import RESOURCES

NAME = "results"


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario that was replayed."""

    title: str
    about: str
    policies: dict[str, PolicyResult]
    notes: dict[str, str]
    beside: list[Beside]
    cpu_seconds: float


class Report(msgspec.Struct, frozen=True):
    """All scenarios that were replayed, by the names of their files; and those whose trace is not there."""

    scenarios: dict[str, Replayed]
    absent: dict[str, str]


def replayed(
    scenario: Scenario, comparison: Comparison, held: Sequence[Beside], cpu_seconds: float
) -> Replayed:
    """What there is to keep of one."""
    return Replayed(
        title=scenario.title,
        about=scenario.about,
        policies=comparison.results.policies,
        notes=comparison.notes,
        beside=list(held),
        cpu_seconds=cpu_seconds,
    )


def write(report: Report, folder: Path) -> None:
    """Write the numbers and the page."""
    (folder / f"{NAME}.json").write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    (folder / f"{NAME}.md").write_text(page(report), encoding="utf-8")


def read(folder: Path) -> Report:
    """The numbers, as they were written."""
    return msgspec.json.decode((folder / f"{NAME}.json").read_bytes(), type=Report)


def page(report: Report) -> str:
    """The page about these numbers."""
    return "\n".join(_page(report)) + "\n"


_INTRODUCTION = (
    "# What the policies do with the same load",
    "",
    f"Made by `./dev bench scenarios --write docs` from `{NAME}.json`; do not edit. Each part is one file",
    "of `scenarios/`, and `wattpack replay scenarios/NAME.toml` shows the same; [replay.md](replay.md)",
    "says what is simulated. Where a paper or a peer has a figure, it stands beside ours; what is asked of",
    "ours, and whether it is kept, stands behind.",
)


def _page(report: Report) -> Iterator[str]:
    yield from _INTRODUCTION
    for name, each in report.scenarios.items():
        yield from ("", f"## {each.title}", "", f"`scenarios/{name}.toml`. {each.about}".rstrip(), "")
        yield from _policies(each.policies)
        if each.notes:
            yield ""
            yield from (f"- {policy}: {note}" for policy, note in each.notes.items())
        if each.beside:
            yield ""
            yield from _beside(each.beside)
        yield from ("", f"Replayed in {each.cpu_seconds:.0f} s of CPU time, all policies together.")
    if report.absent:
        yield from ("", "## Not replayed", "")
        yield from (f"- `scenarios/{name}.toml`: {why}" for name, why in report.absent.items())


def _policies(policies: dict[str, PolicyResult]) -> Iterator[str]:
    yield from table_head(
        ("policy", "kWh", "over the bound", "node hours", "moves", "placed %", *_overloaded_heads(), "p99 ms")
    )
    for name, result in policies.items():
        bound, slowest = result.lower_bound_kwh, result.timing.place_p99_ms
        yield table_row(
            (
                name,
                f"{result.energy_kwh:.2f}",
                f"{result.energy_kwh / bound:.2f}" if bound else "",
                f"{result.node_hours:.1f}",
                str(result.migrations),
                f"{100 * result.placed_ratio:.1f}",
                *(f"{100 * result.overloaded_node_time_ratio[each]:.2f}" for each in RESOURCES),
                "" if slowest is None else f"{slowest:.1f}",
            )
        )


def _overloaded_heads() -> Iterator[str]:
    yield from (f"short of {resource} %" for resource in RESOURCES)


def _beside(held: Sequence[Beside]) -> Iterator[str]:
    yield from table_head(("figure", "policy", "theirs", "ours", "asked"))
    for each in held:
        theirs = "" if each.theirs is None else shown(each, each.theirs)
        ours = shown(each, each.ours)
        yield table_row((name_of(each), each.policy, theirs, ours if each.ok else f"**{ours}**", asked(each)))
    yield ""
    yield from (f"- {note}" for note in notes(held))

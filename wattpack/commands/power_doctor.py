"""`wattpack power doctor`: what this host can measure, what replaces the rest, and how to enable it."""

import argparse
import asyncio
import logging
import os
import re
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil

from agent.config import AgentConfig
from agent.features import settings_class
from agent.main import sample_once
from agent.sources.reader import Reader
from powermodels.common.interface import Load, Meter, MeterState, Scope
from powermodels.estimator import Estimator
from powermodels.meters import find_meters
from powermodels.meters.rapl import find_pyrapl
from wattpack.commands.power_calibrate import MODEL_PATH
from wattpack.config.arguments import add
from wattpack.config.options import add_config_options, load_config
from wattpack.output.text import print_result
from wire.messages import Gap, Pressure

# A management controller answers slowly.
_TIMEOUT_SECONDS = 5.0
_POLL_SECONDS = 1.0
_AGREEMENT_RATIO = 0.05
_WIDTH = 100
_COMMAND = re.compile(r"(?<=:) (?=sudo )")


class MeterReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """One meter of the host."""

    name: str
    state: str
    """used, silent, shown or absent."""
    scope: str = ""
    watts: float | None = None
    reason: str = ""
    """Why it is not used, and how to enable it."""
    parts: dict[str, float | None] = {}


class Findings(msgspec.Struct, frozen=True):
    """The result of the check."""

    measured: bool
    """Whether a meter measures the power of the host."""
    meters: tuple[MeterReport, ...]
    model: str
    model_error_ratio: float
    found: tuple[str, ...]
    missing: tuple[Gap, ...]
    as_root: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser, "agent")
    add(parser, "--model FILE", "power model of this host", Path, default=MODEL_PATH)
    add(parser, "--json", "print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    config = load_config(settings_class(), "agent", arguments)
    logging.getLogger().addHandler(logging.NullHandler())  # gaps are part of the findings
    findings = examine(config, arguments.model)
    return print_result(arguments, findings, _lines(findings))


def examine(config: AgentConfig, model_path: Path) -> Findings:
    """Check the host for a few seconds."""
    proc, sys = config.host.proc, config.host.sys
    estimator = Estimator.for_host(proc, sys, model_path=model_path)
    pyrapl = find_pyrapl(sys, estimator.facts.hypervisor)
    pyrapl_watts = _measure(estimator, None if isinstance(pyrapl, Gap) else pyrapl)
    states = estimator.meters()
    _, absent = find_meters(sys, estimator.facts.hypervisor)
    host = asyncio.run(sample_once(config)).state
    pressure, gaps = (Pressure(), ()) if host is None else (host.pressure, host.gaps)
    of_power = {gap.what for gap in (*estimator.gaps, *absent)}
    return Findings(
        measured=any(state.used for state in states),
        meters=(
            *(_meter_report(state) for state in states),
            *(MeterReport(gap.what, "absent", reason=gap.why) for gap in absent),
            *_cross_check(states, pyrapl_watts),
        ),
        model=estimator.model.describe(),
        model_error_ratio=estimator.model.error_ratio,
        found=(
            *Reader(proc, sys, subtree=config.host.cgroup).describe(),
            *(["pressure (PSI): time that tasks wait for a resource"] if pressure != Pressure() else []),
        ),
        missing=tuple(gap for gap in gaps if gap.what not in of_power),
        as_root=os.geteuid() == 0,
    )


def _measure(estimator: Estimator, pyrapl: Meter | None) -> float | None:
    """Wait for the first reading of each meter; returns the reading of pyRAPL."""
    began_seconds = now_seconds = time.monotonic()
    estimator.begin(now_seconds)
    pyrapl_watts = pyrapl.watts(now_seconds) if pyrapl is not None else None
    while True:
        time.sleep(_POLL_SECONDS)
        now_seconds = time.monotonic()
        estimator.estimate(now_seconds, Load(psutil.cpu_percent() / 100), {})
        pyrapl_watts = pyrapl.watts(now_seconds) if pyrapl is not None else None
        waiting = any(
            state.watts is None and state.gap is None and state.scope is not Scope.PART
            for state in estimator.meters()
        )
        if not waiting or now_seconds - began_seconds > _TIMEOUT_SECONDS:
            return pyrapl_watts


def _meter_report(state: MeterState) -> MeterReport:
    parts = {part.name: part.watts for part in state.parts}
    if state.used:
        return MeterReport(state.name, "used", state.scope.value, state.watts, parts=parts)
    if state.gap is not None:
        return MeterReport(state.name, "silent", state.scope.value, reason=state.gap.why, parts=parts)
    reason = (
        "not used: it is unknown which part of the host these sensors measure"
        if state.scope is Scope.PART
        else "not used: another meter covers more of the host, or is more accurate"
    )
    return MeterReport(state.name, "shown", state.scope.value, state.watts, reason, parts)


def _cross_check(states: tuple[MeterState, ...], pyrapl_watts: float | None) -> Iterator[MeterReport]:
    """Compare with pyRAPL, if it is installed and both have a reading."""
    ours = next((state.watts for state in states if state.name == "rapl"), None)
    if ours is not None and pyrapl_watts is not None:
        agrees = abs(ours - pyrapl_watts) <= _AGREEMENT_RATIO * ours
        reason = f"it {'agrees' if agrees else 'does not agree'} with our reading of the same counters"
        yield MeterReport("pyRAPL", "shown", watts=pyrapl_watts, reason=reason)


_MARKS = {"used": "✓", "shown": "·", "silent": "✗", "absent": "-"}


def _lines(findings: Findings) -> Iterator[str]:
    yield "Power meters"
    for meter in findings.meters:
        watts = "" if meter.watts is None else f"{meter.watts:.1f} W, "
        what = f"{watts}{meter.scope}" if meter.state in {"used", "shown"} else meter.reason
        yield from _item(_MARKS[meter.state], meter.name, what)
        if meter.state == "shown":
            yield from _item("", "", meter.reason)
        for name, part_watts in meter.parts.items():
            if part_watts is not None and (len(meter.parts) > 1 or meter.watts is None):
                yield from _item("", "", f"{part_watts:8.2f} W  {name}")
    yield ""
    yield "Power model"
    yield from _item("·" if findings.measured else "✓", "", findings.model)
    if not findings.measured:
        yield from _item(" ", "", "No meter answers, so all watts are estimated by this model.")
    yield ""
    yield "This host"
    for line in findings.found:
        yield from _item("✓", "", line)
    for gap in findings.missing:
        yield from _item("✗", "", f"{gap.what}: {gap.why}")
    if findings.as_root:
        yield ""
        yield "Checked as root. The agent's user may have fewer permissions; the agent logs what it lacks."


def _item(mark: str, name: str, text: str) -> Iterator[str]:
    head = f"  {mark:1} {name:<16} " if name or not mark else f"  {mark:1} "
    # A command is not wrapped, so that it can be copied.
    prose, *command = _COMMAND.split(text, maxsplit=1)
    lines = textwrap.wrap(prose, _WIDTH - len(head), break_long_words=False, break_on_hyphens=False)
    for number, line in enumerate((*lines, *command)):
        yield f"{head if number == 0 else ' ' * len(head)}{line}"

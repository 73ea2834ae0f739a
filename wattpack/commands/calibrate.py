"""`wattpack calibrate`: a model of this very machine, fitted to what its meter says under known loads."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import cast, get_args

import psutil

from agent.config import AgentConfig
from agent.sampling.power import load_of
from agent.sampling.rates import compute_rates
from agent.sources.reader import Reader
from powermodels.calibration.drive import Drive, LoadLimits, Progress, ReadLoad
from powermodels.calibration.plan import Phase, ramp
from powermodels.calibration.plot import svg_plot, text_plot
from powermodels.calibration.recording import (
    CalibrationRecording,
    RecordingHeader,
    read_recording,
    write_recording,
)
from powermodels.common.host_facts import read_host_facts
from powermodels.common.interface import Load, Meter, Scope
from powermodels.common.scaling import completed
from powermodels.learning.refit import fit_and_wait
from powermodels.meters import find_meters
from powermodels.models.fitted import ScopeName, fingerprint
from powermodels.models.samples import Kind
from powermodels.models.stored import Stored, save
from wattpack.config.options import add_config_options, load_config
from wire.errors import UserError
from wire.resources import Quantities

MODEL_PATH = Path("/var/lib/wattpack-agent/model.json")
_METER_PACE_SECONDS = 0.5
_METER_PATIENCE_SECONDS = 15.0
_MEMORY_SHARE = 0.25
_BAR = 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser, "agent")
    parser.add_argument(
        "--minutes",
        type=float,
        default=5.0,
        metavar="N",
        help="how long the ramp takes (default: %(default)g)",
    )
    parser.add_argument(
        "--from",
        type=Path,
        dest="recording",
        metavar="FILE",
        help="fit this recording; drive and meter nothing",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=MODEL_PATH,
        metavar="FILE",
        help="where the model goes (default: %(default)s)",
    )
    parser.add_argument(
        "--kind",
        choices=get_args(Kind),
        default="curve",
        help="what to fit (default: %(default)s, which adapts)",
    )


def run(arguments: argparse.Namespace) -> int:
    config = load_config(AgentConfig, "agent", arguments)
    proc, sys_root = Path(config.roots.proc), Path(config.roots.sys)
    host = fingerprint(read_host_facts(proc, sys_root))
    out: Path = arguments.out
    if arguments.recording is not None:
        recorded = read_recording(arguments.recording, host, datetime.now(UTC))
        _check_place(out)
    else:
        recorded = _record(arguments, proc, sys_root, host)
        kept = out.with_suffix(".recording.jsonl")
        write_recording(kept, recorded)
        print(f"recorded   {len(recorded.samples)} samples, kept in {kept}")
    model = fit_and_wait(recorded.request(cast("Kind", arguments.kind)))
    save(model, out)
    picture = out.with_suffix(".svg")
    picture.write_text(svg_plot(recorded.samples, model, model.describe()))
    print("\n".join(_result(recorded, model, out, picture)))
    return 0


def _check_place(out: Path) -> None:
    """Find out now, not after minutes of work, that the model cannot be kept."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        probe = out.with_name(f".{out.name}.probe")
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UserError(
            f"{out} cannot be written ({error.strerror}): choose another place with --out"
        ) from error


def _record(arguments: argparse.Namespace, proc: Path, sys_root: Path, host: str) -> CalibrationRecording:
    facts = read_host_facts(proc, sys_root)
    meter = _answering(find_meters(sys_root, facts.hypervisor)[0])
    _check_place(arguments.out)
    reader = Reader(proc, sys_root)
    scaling = completed(Quantities(cpu_cores=reader.read().host.cores, memory_bytes=facts.memory_bytes))
    limits = LoadLimits(
        cores=facts.threads,
        memory_bytes=int(psutil.virtual_memory().available * _MEMORY_SHARE),
        folder=arguments.out.parent,
    )
    plan = ramp(arguments.minutes, meter.period_seconds)
    print(f"meter      {meter.describe()}")
    print(f"ramp       {len(plan.phases)} phases in {plan.seconds / 60:.1f} minutes; Ctrl-C ends it")
    drive = Drive(meter, _looking(reader, scaling), limits, time.sleep)
    samples = drive.run(plan, _teller(in_place=sys.stdout.isatty()))
    head = RecordingHeader(
        host=host,
        meter=meter.describe(),
        metered=cast("ScopeName", meter.scope.name),
        scaling=scaling,
        made=datetime.now(UTC),
    )
    return CalibrationRecording(head, tuple(samples))


def _answering(meters: Sequence[Meter]) -> Meter:
    """The best meter that gives watts, each being given time for a first answer."""
    until_seconds = time.monotonic() + _METER_PATIENCE_SECONDS
    able = [meter for meter in meters if meter.scope is not Scope.PART]
    while able and time.monotonic() < until_seconds:
        for meter in able:
            if meter.watts(time.monotonic()) is not None:
                return meter
        able = [meter for meter in able if meter.gap is None]
        time.sleep(_METER_PACE_SECONDS)
    raise UserError(
        "no meter answers on this host, so there is nothing to calibrate with: 'wattpack doctor' says which "
        "one could be opened and how; with a recording of this machine made elsewhere, use --from FILE"
    )


def _looking(reader: Reader, scaling: Quantities) -> ReadLoad:
    last = reader.read()

    def look() -> tuple[float, Load]:
        nonlocal last
        before, last = last, reader.read()
        return last.monotonic_seconds, load_of(compute_rates(before, last).used, scaling)

    return look


def _teller(*, in_place: bool) -> Callable[[Progress], None]:
    """Shows progress: as one line drawn over and over, or as a line per phase where nobody watches."""
    shown: list[Phase] = []

    def tell(progress: Progress) -> None:
        watts = "" if progress.watts is None else f"{progress.watts:8.1f} W"
        if in_place:
            bar = "█" * round(progress.ratio * _BAR)
            print(
                f"\r{bar:░<{_BAR}} {progress.ratio:4.0%} {watts}  {progress.phase.name:<35}",
                end="",
                flush=True,
            )
            if progress.ratio >= 1:
                print()
        elif progress.phase not in shown:
            shown.append(progress.phase)
            print(f"{progress.ratio:4.0%} {watts}  {progress.phase.name}", flush=True)

    return tell


def _result(recorded: CalibrationRecording, model: Stored, out: Path, picture: Path) -> Iterator[str]:
    groups = {each.group for each in recorded.samples}
    idle_watts, full_watts = (model.terms(Load(cpu_ratio)).watts for cpu_ratio in (0.0, 1.0))
    yield ""
    yield from text_plot(recorded.samples, model)
    yield ""
    yield f"model      {model.describe()}"
    yield f"idle       {idle_watts:.1f} W, all cores {full_watts:.1f} W: {model.scope.value}"
    yield f"error      {model.error_ratio:.1%} on average: each of {len(groups)} loads, fitted to the others"
    yield f"kept in    {out} (picture: {picture}); the agent takes it at its next start"

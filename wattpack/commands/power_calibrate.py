"""`wattpack power calibrate`: fit a power model of this host to its meter under known loads."""

import argparse
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import cast, get_args

import psutil

from agent.config import StorageConfig
from agent.features import settings_class
from agent.sampling.rates import compute_rates
from agent.sources.reader import Reader
from powermodels.calibration.drive import Drive, LoadLimits, Phase, ReadLoad, Show, ramp
from powermodels.calibration.plot import text_plot
from powermodels.calibration.recording import (
    CalibrationRecording,
    RecordingHeader,
    read_recording,
    write_recording,
)
from powermodels.common.host_facts import read_host_facts
from powermodels.common.interface import Load, Meter, Scope, completed
from powermodels.learning.refit import fit_and_wait
from powermodels.meters import find_meters
from powermodels.models.fitted import ScopeName, fingerprint
from powermodels.models.samples import Kind
from powermodels.models.stored import Stored, save
from wattpack.config.arguments import add
from wattpack.config.options import add_config_options, load_config
from wattpack.output.text import count_text, writing
from wire.errors import UserError
from wire.resources import Quantities

MODEL_PATH = Path(StorageConfig().directory, "model.json")
_METER_POLL_SECONDS = 0.5
_METER_TIMEOUT_SECONDS = 15.0
_MEMORY_SHARE = 0.25


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser, "agent")
    add(parser, "--minutes N", "duration of the load ramp", float, default=5.0)
    add(parser, "--from FILE", "fit this recording instead of running a load ramp", Path, dest="recording")
    add(parser, "--recorded-here", "the recording is of this host, although it does not name it")
    add(parser, "--out FILE", f"file to write the model to (default: {MODEL_PATH})", Path)
    add(
        parser,
        f"--kind {'|'.join(get_args(Kind))}",
        "kind of model; curve adapts to the host",
        default="curve",
    )


def run(arguments: argparse.Namespace) -> int:
    config = load_config(settings_class(), "agent", arguments)
    proc, sys_root = config.host.proc, config.host.sys
    host = fingerprint(read_host_facts(proc, sys_root))
    out: Path = arguments.out or MODEL_PATH
    if arguments.recording is not None:
        recorded = read_recording(arguments.recording, datetime.now(UTC))
        if arguments.recorded_here:
            recorded = recorded.of_host(host)
        if recorded.head.host != host and arguments.out is None:
            raise UserError(
                f"{arguments.recording} is not known to be a recording of this host: add --recorded-here if"
                " it is, or --out FILE to write a model that the agent here does not use"
            )
        _check_writable(out)
    else:
        recorded = _record(arguments.minutes, out, proc, sys_root, host)
        recording = out.with_suffix(".recording.jsonl")
        write_recording(recording, recorded)
        print(f"recorded   {count_text(len(recorded.samples), 'sample')}, saved to {recording}")
    model = fit_and_wait(recorded.request(cast("Kind", arguments.kind)))
    save(model, out)
    print("\n".join(_result(recorded, model, out, is_own=recorded.head.host == host)))
    return 0


def _check_writable(out: Path) -> None:
    """Fail now, not after minutes of work, if the model cannot be saved."""
    with writing(out, "choose another file with --out"):
        out.parent.mkdir(parents=True, exist_ok=True)
        probe = out.with_name(f".{out.name}.probe")
        probe.touch()
        probe.unlink()


def _record(minutes: float, out: Path, proc: Path, sys_root: Path, host: str) -> CalibrationRecording:
    facts = read_host_facts(proc, sys_root)
    meter = _working_meter(find_meters(sys_root, facts.hypervisor)[0])
    _check_writable(out)
    reader = Reader(proc, sys_root)
    scaling = completed(Quantities(cpu_cores=reader.read().host.cores, memory_bytes=facts.memory_bytes))
    limits = LoadLimits(
        cores=facts.threads,
        memory_bytes=int(psutil.virtual_memory().available * _MEMORY_SHARE),
        folder=out.parent,
    )
    plan = ramp(minutes, meter.period_seconds)
    print(f"meter      {meter.describe()}")
    print(f"ramp       {len(plan.phases)} phases in {plan.seconds / 60:.1f} minutes; press Ctrl-C to abort")
    drive = Drive(meter, _load_reader(reader, scaling), limits, time.sleep)
    samples = drive.run(plan, _progress_printer())
    head = RecordingHeader(
        host=host,
        meter=meter.describe(),
        metered=cast("ScopeName", meter.scope.name),
        scaling=scaling,
        made=datetime.now(UTC),
    )
    return CalibrationRecording(head, tuple(samples))


def _working_meter(meters: Sequence[Meter]) -> Meter:
    """The best meter that returns watts within the timeout."""
    until_seconds = time.monotonic() + _METER_TIMEOUT_SECONDS
    able = [meter for meter in meters if meter.scope is not Scope.PART]
    while able and time.monotonic() < until_seconds:
        for meter in able:
            if meter.watts(time.monotonic()) is not None:
                return meter
        able = [meter for meter in able if meter.gap is None]
        time.sleep(_METER_POLL_SECONDS)
    raise UserError(
        "no power meter answers on this host: run 'wattpack power doctor' to see which meters can be enabled,"
        " or use an existing recording of this host with --from FILE"
    )


def _load_reader(reader: Reader, scaling: Quantities) -> ReadLoad:
    last = reader.read()

    def read_load() -> tuple[float, Load]:
        nonlocal last
        before, last = last, reader.read()
        return last.monotonic_seconds, Load.of(compute_rates(before, last).used, scaling)

    return read_load


def _progress_printer() -> Show:
    """Print one line per phase."""
    shown: list[Phase] = []

    def show(phase: Phase, ratio: float, watts: float | None) -> None:
        if phase not in shown:
            shown.append(phase)
            power = "" if watts is None else f"{watts:8.1f} W"
            print(f"{ratio:4.0%} {power}  {phase.name}", flush=True)

    return show


def _result(recorded: CalibrationRecording, model: Stored, out: Path, *, is_own: bool) -> Iterator[str]:
    groups = {each.group for each in recorded.samples}
    idle_watts, full_watts = (model.terms(Load(cpu_ratio)).watts for cpu_ratio in (0.0, 1.0))
    yield ""
    yield from text_plot(recorded.samples, model)
    yield ""
    yield f"model      {model.describe()}"
    yield f"idle       {idle_watts:.1f} W, all cores {full_watts:.1f} W: {model.scope.value}"
    yield f"error      {model.error_ratio:.1%} on average, cross-validated over {len(groups)} loads"
    use = "restart the agent to use it" if is_own else "the agent does not use it: it is of another machine"
    yield f"saved      {out}; {use}"

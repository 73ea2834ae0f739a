"""IPMI DCMI: power of the machine, from the management controller, through a command-line tool.

The tool takes from a tenth of a second to several seconds, and may hang. So it runs in the background, at its
own interval: a call starts it or reads its output, and never waits. A run that takes too long is killed; an
old value is not used.
"""

import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from powermodels.common.interface import Part, Scope
from powermodels.meters.sensors import MAX_NODE_WATTS, own_group
from wire.messages import Gap, PowerSource

_WHAT = "IPMI"
# Whole watts, averaged over a second or more, from an uncalibrated sensor: this is an estimate.
_ERROR_RATIO = 0.05
_PERIOD_SECONDS = 10.0
_PERIOD_AFTER_FAILURE_SECONDS = 60.0
_TIMEOUT_SECONDS = 20.0
_FRESH_SECONDS = 30.0
_CLOSE_SECONDS = 1.0

_IPMITOOL = re.compile(r"Instantaneous power reading:\s*(\d+)\s*Watts", re.IGNORECASE)
_FREEIPMI = re.compile(r"^Current Power\s*:\s*(\d+)\s*Watts", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Tool:
    """A command that queries the controller, and the pattern of its output."""

    command: tuple[str, ...]
    answer: re.Pattern[str]


TOOLS: tuple[Tool, ...] = (
    Tool(("ipmitool", "dcmi", "power", "reading"), _IPMITOOL),
    Tool(("ipmi-dcmi", "--get-system-power-statistics"), _FREEIPMI),
)


def parse_watts(text: str, answer: re.Pattern[str]) -> float | None:
    """The watts in the output of a tool; a controller without a sensor reports 0."""
    found = answer.search(text)
    watts = float(found[1]) if found else 0.0
    return watts if 0 < watts <= MAX_NODE_WATTS else None


def find_ipmi(sys: Path, hypervisor: str | None, tools: Sequence[Tool] = TOOLS) -> "IpmiMeter | Gap":
    """Find the management controller of the host, or the reason why it cannot be used."""
    if hypervisor is not None:
        return Gap(_WHAT, f"this is a virtual machine ({hypervisor}), which has no management controller")
    if not any((sys / "class/ipmi").glob("ipmi*")):
        return Gap(
            _WHAT,
            "there is no management controller, or its driver is not loaded: "
            "`sudo modprobe ipmi_si && sudo modprobe ipmi_devintf`",
        )
    for tool in tools:
        if path := shutil.which(tool.command[0]):
            return IpmiMeter(Tool((path, *tool.command[1:]), tool.answer))
    names = " or ".join(tool.command[0] for tool in tools)
    return Gap(_WHAT, f"there is a controller but no tool to query it: install {names}")


class IpmiMeter:
    """The last value of the controller, while it is fresh."""

    name = "ipmi"
    source = PowerSource.IPMI
    scope = Scope.NODE
    error_ratio = _ERROR_RATIO
    period_seconds = _PERIOD_SECONDS

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self._running: subprocess.Popen[str] | None = None
        self._began_seconds = float("-inf")
        self._called_seconds = float("-inf")
        self._answered_seconds = float("-inf")
        self._answer_watts: float | None = None
        self._watts: float | None = None
        self.gap: Gap | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        return (Part("dcmi", self._watts, counted=True),)

    def watts(self, monotonic_seconds: float) -> float | None:
        if self._running is not None:
            self._collect(self._running, monotonic_seconds)
        wait_seconds = _PERIOD_SECONDS if self.gap is None else _PERIOD_AFTER_FAILURE_SECONDS
        if self._running is None and monotonic_seconds - self._began_seconds >= wait_seconds:
            self._start(monotonic_seconds)
        # A sample that is longer than a value is fresh uses the value requested at its start.
        fresh_seconds = max(_FRESH_SECONDS, monotonic_seconds - self._called_seconds)
        self._called_seconds = monotonic_seconds
        fresh = monotonic_seconds - self._answered_seconds <= fresh_seconds
        self._watts = self._answer_watts if fresh else None
        return self._watts

    def describe(self) -> str:
        return (
            f"IPMI DCMI through {Path(self._tool.command[0]).name} ({self.scope.value}), ±{_ERROR_RATIO:.0%}"
        )

    def close(self) -> None:
        """Kill a running tool."""
        if self._running is not None:
            self._running.kill()
            # A tool that waits for its driver ends only after that: the agent does not wait for it.
            with suppress(subprocess.TimeoutExpired):
                self._running.communicate(timeout=_CLOSE_SECONDS)
            self._running = None

    def _start(self, monotonic_seconds: float) -> None:
        self._began_seconds = monotonic_seconds
        try:
            self._running = subprocess.Popen(  # noqa: S603 - a fixed command
                self._tool.command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        except OSError as error:
            self._fail(f"{self._tool.command[0]} cannot be started: {error}")

    def _collect(self, running: subprocess.Popen[str], monotonic_seconds: float) -> None:
        if running.poll() is None:
            if monotonic_seconds - self._began_seconds > _TIMEOUT_SECONDS:
                running.kill()
                self._fail(f"{' '.join(self._tool.command)} did not answer within {_TIMEOUT_SECONDS:.0f} s")
            return
        self._running = None
        text, _ = running.communicate()
        watts = parse_watts(text, self._tool.answer)
        if watts is None:
            self._fail(_failure_reason(text, running.returncode, self._tool))
            return
        self.gap = None
        self._answer_watts, self._answered_seconds = watts, self._began_seconds

    def _fail(self, why: str) -> None:
        self.gap = Gap(_WHAT, why)
        self._answer_watts = None


def _failure_reason(text: str, status: int, tool: Tool) -> str:
    output = " ".join(text.split())[:200] or f"status {status}"
    if re.search(r"permission|could not open device|must be root", text, re.IGNORECASE):
        return (
            f"no permission to use the controller ({output}); with write access the agent could also switch "
            "the machine off. To allow it: "
            f"sudo sh -c 'chgrp {own_group()} /dev/ipmi0 && chmod g+rw /dev/ipmi0'"
        )
    return f"the controller reported no power: `{' '.join(tool.command)}` printed {output}"

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from powermodels.common.interface import Scope
from powermodels.meters.ipmi import TOOLS, IpmiMeter, Tool, find_ipmi, parse_watts
from tests.powermodels.sysfs import write_files
from wire.messages import Gap, PowerSource

IPMITOOL_OUTPUT = """
    Instantaneous power reading:                   220 Watts
    Minimum during sampling period:                  4 Watts
    Maximum during sampling period:                384 Watts
    Average power reading over sample period:      215 Watts
    IPMI timestamp:                           Thu Feb 15 11:33:45 2024
    Sampling period:                          00000001 Seconds.
    Power reading state is:                   activated
"""
FREEIPMI_OUTPUT = """
Current Power                        : 164 Watts
Minimum Power over sampling duration : 3 watts
Maximum Power over sampling duration : 287 watts
Average Power over sampling duration : 163 watts
Time Stamp                           : 02/15/2024 - 11:33:45
Statistics reporting time period     : 1000 milliseconds
Power Measurement                    : Active
"""


class Controller:
    """A tool with the output of a test, and the meter that runs it."""

    def __init__(self, folder: Path) -> None:
        self._answer = folder / "answer"
        program = folder / "ipmitool"
        program.write_text(f"#!/bin/sh\n. {shlex.quote(str(self._answer))}\n")
        program.chmod(0o755)
        self.prints(IPMITOOL_OUTPUT)
        self.meter = IpmiMeter(Tool((str(program), "dcmi", "power", "reading"), TOOLS[0].answer))

    def prints(self, text: str, status: int = 0) -> None:
        self.does(f"cat <<'END'\n{text}\nEND\nexit {status}")

    def does(self, script: str) -> None:
        self._answer.write_text(script)

    def ended(self) -> None:
        """Wait until the tool's run is over, without taking its answer."""
        running = self.meter._running
        assert running is not None
        os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOWAIT)


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    made = Controller(tmp_path)
    yield made
    made.meter.close()


def why_not(meter: IpmiMeter) -> str:
    return "" if meter.gap is None else meter.gap.why


def test_both_tools_answers_are_understood() -> None:
    ipmitool, freeipmi = (tool.answer for tool in TOOLS)
    assert parse_watts(IPMITOOL_OUTPUT, ipmitool) == 220
    assert parse_watts(FREEIPMI_OUTPUT, freeipmi) == 164
    assert parse_watts(FREEIPMI_OUTPUT, ipmitool) is None
    assert parse_watts("Instantaneous power reading: 0 Watts", ipmitool) is None
    assert parse_watts("Instantaneous power reading: 65535 Watts", ipmitool) is None


def test_an_answer_comes_with_a_later_sample_and_holds_while_it_is_fresh(controller: Controller) -> None:
    meter = controller.meter
    assert meter.watts(0) is None
    controller.ended()
    assert meter.watts(3) == 220
    assert (meter.source, meter.scope, meter.gap) == (PowerSource.IPMI, Scope.NODE, None)
    assert meter.watts(6) == 220
    controller.prints(IPMITOOL_OUTPUT.replace("220", "300"))
    assert meter.watts(10) == 220, "the tool runs again, and the meter does not wait"
    controller.ended()
    assert meter.watts(13) == 300
    assert [part.watts for part in meter.parts] == [300]


def test_hanging_controller_blocks_no_sample_and_its_value_expires(controller: Controller) -> None:
    meter = controller.meter
    meter.watts(0)
    controller.ended()
    assert meter.watts(3) == 220
    controller.does("exec sleep 600")
    assert meter.watts(10) == 220
    hanging = meter._running
    assert hanging is not None
    assert meter.watts(28) == 220
    assert why_not(meter) == ""
    assert meter.watts(31) is None
    assert "did not answer within 20 s" in why_not(meter)
    controller.ended()
    assert meter.watts(34) is None
    assert hanging.returncode == -9
    assert meter._running is None


def test_failed_controller_is_queried_less_often(controller: Controller) -> None:
    meter = controller.meter
    controller.prints("Could not open device at /dev/ipmi0: Permission denied", status=1)
    meter.watts(0)
    controller.ended()
    assert meter.watts(3) is None
    assert "/dev/ipmi0 && chmod g+rw /dev/ipmi0'" in why_not(meter)
    controller.prints(IPMITOOL_OUTPUT)
    assert meter.watts(20) is None
    assert meter._running is None
    assert meter.watts(60) is None
    controller.ended()
    assert meter.watts(63) == 220
    assert why_not(meter) == ""


def test_samples_longer_than_an_answer_is_fresh_still_get_one(controller: Controller) -> None:
    meter = controller.meter
    meter.watts(0)
    controller.ended()
    assert meter.watts(120) == 220


def test_a_tool_that_is_gone_is_a_gap(tmp_path: Path) -> None:
    meter = IpmiMeter(Tool((str(tmp_path / "gone"),), TOOLS[0].answer))
    assert meter.watts(0) is None
    assert "cannot be started" in why_not(meter)


def test_missing_meter_is_a_gap_with_a_reason(tmp_path: Path) -> None:
    guest = find_ipmi(tmp_path, "KVM")
    without = find_ipmi(tmp_path, None)
    write_files(tmp_path, {"class/ipmi/ipmi0/dev": "243:0"})
    no_tool = find_ipmi(tmp_path, None, [Tool(("no-such-tool-1",), TOOLS[0].answer)])
    assert isinstance(guest, Gap)
    assert isinstance(without, Gap)
    assert "modprobe ipmi_si" in without.why
    assert isinstance(no_tool, Gap)
    assert "install no-such-tool-1" in no_tool.why
    assert isinstance(find_ipmi(tmp_path, None, [Tool(("sh",), TOOLS[0].answer)]), IpmiMeter)

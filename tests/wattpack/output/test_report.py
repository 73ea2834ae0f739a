from tests.reports import container, report
from wattpack.output.report import show_report


def test_report_lists_containers_by_power() -> None:
    shown = show_report(report(container("small", watts=0.5), container("big", watts=5.0))).splitlines()
    assert shown[0] == (
        "node1: 1.50 of 4 cores (38%), memory 2.0 GiB of 8.0 GiB (25%), disk 4.0 KiB/s, network -"
    )
    assert shown[1] == (
        "power: 45.50 W ±22.75 at the wall by prior = idle 38.00 + system 2.00 + containers 5.50"
    )
    assert shown[3].split() == ["CONTAINER", "CPU", "CORES", "MEMORY", "DISK", "NETWORK", "POWER"]
    assert shown[4].split() == ["big", "0.500", "256.0", "MiB", "2.0", "KiB/s", "-", "5.00", "W", "±3.00"]
    assert shown[5].startswith("small")


def test_unknown_values_are_dashes_in_the_report() -> None:
    assert show_report(report(container("new", cpu_cores=None))).splitlines()[4].split()[:2] == ["new", "-"]


def test_omitted_containers_are_counted() -> None:
    many = [container(f"c{number}") for number in range(10)]
    shown = show_report(report(*many), most_containers=3).splitlines()
    assert len([line for line in shown if line.startswith("c")]) == 3
    assert shown[-1] == "... and 7 more"


def test_report_without_containers() -> None:
    assert show_report(report()).endswith("No running containers.")

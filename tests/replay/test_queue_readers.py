"""Requests, submissions, hosts and start-up times; a mistake in one is named with its line."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from collector.snapshot.constraints import Constraint, Operator
from replay.readers.queues import read_hosts, read_requests, read_startup_seconds, read_submissions
from replay.readers.samples import Period
from replay.setup.hosts import build_hosts
from replay.setup.scenario import Machines, Scenario
from replay.sources import TraceFile, with_data
from wire.errors import UserError

GIB = 1 << 30
REQUESTS = "second,task,job,duration_seconds,cpu,memory,priority,anti_affinity,constraints\n"
SUBMISSIONS = "second,task,class,availability,cpu,memory_gb\n"
HOSTS = "host,cpu,memory,attributes\n"
WHOLE = Machines(cpu_mips=32_000, memory_mb=131_072)


def written(folder: Path, text: str) -> Path:
    path = folder / "trace"
    path.write_text(text)
    return path


class TestRequests:
    def test_a_task_is_a_container_with_a_promise_by_its_priority(self, tmp_path: Path) -> None:
        lines = ["600,7,j,15,0.5,0.25,9,1,Ql > 4;wN == 2;rs /= x", "600,3,j,90,0.125,0.5,11,0,"]
        lines += ["700,4,k,60,0.25,0.25,8,0,", "700,5,l,60,0.25,0.25,2,0,", "700,6,m,60,0.25,0.25,1,0,Ql < 3"]
        workload = read_requests(written(tmp_path, REQUESTS + "\n".join(lines)), [WHOLE])
        assert workload.promised is not None
        names = [workload.promised.promises[code].name for code in workload.promised.promise]
        assert names == ["A", "A", "B", "B", "C"]
        assert [each.availability for each in workload.promised.promises] == [1.0, 0.9, 0.5]
        assert workload.services == ("j", "j", "k", "l", "m")
        assert workload.promised.spread.tolist() == [True, False, False, False, False]
        assert workload.requested[:2, :2].tolist() == [[16, 32 * GIB], [4, 64 * GIB]]
        assert workload.lifetime_seconds.tolist() == [15, 90, 60, 60, 60]
        assert workload.arrival_seconds.tolist() == [600, 600, 700, 700, 700]
        assert workload.duration_seconds == 3600
        assert workload.constraints[0] == (
            Constraint("Ql", Operator.ABOVE, "4"),
            Constraint("wN", Operator.IS, "2"),
            Constraint("rs", Operator.IS_NOT, "x"),
        )
        assert workload.constraints[1:] == ((), (), (), (Constraint("Ql", Operator.BELOW, "3"),))

    def test_containers_use_what_they_reserve(self, tmp_path: Path) -> None:
        workload = read_requests(written(tmp_path, REQUESTS + "0,1,j,15,0.5,0.25,9,1,"), [WHOLE])
        assert workload.use.at(5.0, np.array([0]), np.zeros(1)).tolist() == [[16, 32 * GIB, 0, 0]]

    def test_the_run_ends_with_the_hour_of_the_last_request(self, tmp_path: Path) -> None:
        text = REQUESTS + "0,1,j,15,0.5,0.25,9,1,\n3600,2,j,15,0.5,0.25,9,1,\n"
        assert read_requests(written(tmp_path, text), ()).duration_seconds == 7200

    def test_a_job_of_two_classes_is_two_services(self, tmp_path: Path) -> None:
        text = REQUESTS + "0,1,j,15,0.5,0.25,9,1,\n1,2,j,15,0.5,0.25,0,1,\n2,3,k,15,0.5,0.25,0,1,\n"
        assert read_requests(written(tmp_path, text), ()).services == ("j-A", "j-C", "k")

    def test_ids_sort_as_requests_arrive(self, tmp_path: Path) -> None:
        rows = "".join(f"{second},{100 - second},j,15,0.1,0.1,0,0,\n" for second in range(12))
        workload = read_requests(written(tmp_path, REQUESTS + rows), ())
        assert [each.partition("-")[2] for each in workload.ids] == [str(100 - each) for each in range(12)]

    def test_only_a_period_is_read(self, tmp_path: Path) -> None:
        rows = "".join(f"{second},{second},j,15,0.1,0.1,0,0,\n" for second in range(10))
        workload = read_requests(written(tmp_path, REQUESTS + rows), (), Period(3, 5))
        assert workload.arrival_seconds.tolist() == [3, 4]

    @pytest.mark.parametrize(
        ("row", "message"),
        [
            ("0,1,j,15,0.5,0.25,12,1,", "priority"),
            ("0,1,j,15,0.5,0.25,9,1,Ql >= 4", ">="),
            ("0,1,j,15,0.5,0.25,9,1,Ql>4", "an attribute, an operator and a value"),
            ("0,1,j,0,0.5,0.25,9,1,", "duration"),
            ("0,1,j,15,-1,0.25,9,1,", "cpu"),
            ("0,1,j,15,nan,0.25,9,1,", "cpu"),
            ("0,1,j,15,0.5", "5 fields"),
        ],
    )
    def test_a_mistake_is_named_with_its_line(self, tmp_path: Path, row: str, message: str) -> None:
        path = written(tmp_path, f"{REQUESTS}0,9,j,15,0.5,0.25,9,1,\n{row}\n")
        with pytest.raises(UserError, match="line 3") as error:
            read_requests(path, ())
        assert message in str(error.value)

    def test_missing_columns_and_rows_are_complained_of(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="duration_seconds"):
            read_requests(written(tmp_path, "second,task\n0,1\n"), ())
        with pytest.raises(UserError, match="no requests"):
            read_requests(written(tmp_path, REQUESTS), ())
        with pytest.raises(UserError, match="twice"):
            read_requests(written(tmp_path, REQUESTS + 2 * "0,1,j,15,0.5,0.25,9,1,\n"), ())


class TestSubmissions:
    def test_classes_are_more_important_the_more_they_are_promised(self, tmp_path: Path) -> None:
        rows = "0,251,free,0.5,0.375,0.375\n1,2,prod,1,0.375,0.375\n2,3,batch,0.9,0.375,0.375\n"
        workload = read_submissions(written(tmp_path, SUBMISSIONS + rows), ())
        assert workload.promised is not None
        assert [each.name for each in workload.promised.promises] == ["prod", "batch", "free"]
        assert [each.importance for each in workload.promised.promises] == [1, 2, 3]
        assert workload.promised.promise.tolist() == [2, 0, 1]
        assert workload.services == ("free-251", "prod-2", "batch-3")
        assert np.isinf(workload.lifetime_seconds).all()
        assert workload.requested[0, :2].tolist() == [0.375, 0.375 * GIB]
        assert workload.duration_seconds == 3600

    def test_a_class_has_one_availability(self, tmp_path: Path) -> None:
        rows = "0,1,free,0.5,1,1\n1,2,free,0.6,1,1\n"
        with pytest.raises(UserError, match="same availability"):
            read_submissions(written(tmp_path, SUBMISSIONS + rows), ())
        with pytest.raises(UserError, match=r"line 2: .*availability"):
            read_submissions(written(tmp_path, SUBMISSIONS + "0,1,free,0,1,1\n"), ())


class TestHosts:
    def test_sizes_are_shares_of_the_largest_and_attributes_are_labels(self, tmp_path: Path) -> None:
        path = tmp_path / "hosts.csv.gz"
        path.write_bytes(gzip.compress(f"{HOSTS}12,0.5,0.25,Ql=3;o/=0\n7,1,1,\n".encode()))
        hosts = build_hosts(read_hosts(path, WHOLE))
        assert hosts.names == ("12", "7")
        assert hosts.capacity[:, :2].tolist() == [[16, 32 * GIB], [32, 128 * GIB]]
        assert hosts.labels[0]["Ql"] == "3"
        assert hosts.labels[0]["o/"] == "0"

    @pytest.mark.parametrize("row", ["1,0,1,a=b", "1,1,1,a", ",1,1,", "1,x,1,"])
    def test_a_mistake_is_named_with_its_line(self, tmp_path: Path, row: str) -> None:
        with pytest.raises(UserError, match="line 2"):
            read_hosts(written(tmp_path, HOSTS + row))

    def test_no_hosts_and_hosts_of_one_name_are_complained_of(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="has no hosts"):
            read_hosts(written(tmp_path, HOSTS))
        with pytest.raises(UserError, match="the same name"):
            read_hosts(written(tmp_path, HOSTS + 2 * "1,1,1,a=b\n"))


def test_start_up_times_are_numbers(tmp_path: Path) -> None:
    assert read_startup_seconds(written(tmp_path, "seconds\n2\n3.5\n")) == (2.0, 3.5)
    with pytest.raises(UserError, match="line 3"):
        read_startup_seconds(written(tmp_path, "seconds\n2\nsoon\n"))
    with pytest.raises(UserError, match="no start-up times"):
        read_startup_seconds(written(tmp_path, "seconds\n"))


def test_a_scenario_may_use_a_share_of_its_hosts(tmp_path: Path) -> None:
    path = written(tmp_path, HOSTS + "".join(f"{name},0.5,0.5,a=b\n" for name in range(10)))

    def names(share: float) -> list[str]:
        scenario = Scenario(hosts_dataset="ten", hosts_ratio=share)
        return [each.name for each in with_data(scenario, lambda _: TraceFile(path, "hosts")).hosts]

    assert len(names(1.0)) == 10
    assert len(set(names(0.8))) == 8
    assert names(0.8) == names(0.8)
    assert set(names(0.8)) < set(names(1.0))

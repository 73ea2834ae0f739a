import json
from pathlib import Path

import pytest
import yaml

from wattpack.cli import main
from wattpack.commands.size import PATCHES, format_size, patch_warnings


def size(
    service: str, cpu: tuple[float, float | None] | None, memory: tuple[float, float] | None = None
) -> dict[str, object]:
    parts = {"cpu": cpu, "memory": memory}
    found = {
        name: part and dict(zip(("request", "limit"), part, strict=True)) for name, part in parts.items()
    }
    return {"service": service, **found}


SIZES = (
    size("shop/web", (0.2504, 1.0), (100e6, 200e6)),
    size("shop/db", None, (1 << 30, 2 << 30)),
)


@pytest.fixture
def day(tmp_path: Path) -> Path:
    path = tmp_path / "day.txt"
    lines = [
        f"machine {letter} {' '.join(str(10 + (slot * place) % 30) for slot in range(288))}\n"
        for place, letter in enumerate("abcd", 1)
    ]
    path.write_text("".join(lines))
    return path


def test_a_trace_is_scored_as_json(day: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", "--trace", str(day), "--format", "planetlab", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["methods"]
    assert set(found) == {"ours", "vpa", "given"}
    for method in found.values():
        assert set(method["slack_ratio"]) == set(method["above_ratio"]) == {"cpu"}
    assert found["ours"]["slack_ratio"]["cpu"] < found["given"]["slack_ratio"]["cpu"]


def test_a_trace_is_scored_as_tables_and_a_page(
    day: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "sizes.html"
    assert main(["size", "--trace", str(day), "--format", "planetlab", "--html", str(page)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "4 services, learned on 0.5 days, scored on the next 0.5"
    assert lines[1].split()[:3] == ["METHOD", "RESOURCE", "SLACK"]
    assert "<svg" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["--html", "page.html"], "need --trace"),
        (["web", "--trace", "file"], "leave out SERVICE"),
        (["--trace", __file__], "needs --format"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    arguments: list[str], advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["size", *arguments]) == 2
    assert advice in capsys.readouterr().err


def test_the_patch_for_compose_is_an_override_file() -> None:
    text = "\n".join(PATCHES["compose"](SIZES))
    services = yaml.safe_load(text)["services"]
    assert services["web"]["deploy"]["resources"] == {
        "reservations": {"cpus": "0.251", "memory": "96M"},
        "limits": {"cpus": "1", "memory": "191M"},
    }
    assert services["db"]["deploy"]["resources"]["reservations"] == {"memory": "1024M"}
    assert "Project shop" in text


def test_a_name_does_not_end_the_comment_of_a_patch() -> None:
    name = "shop\nservices: {web: {privileged: true}}\n#/web"
    text = "\n".join(PATCHES["compose"]([size(name, (1.0, None))]))
    assert yaml.safe_load(text) == {
        "services": {"web": {"deploy": {"resources": {"reservations": {"cpus": "1"}}}}}
    }
    assert text.splitlines()[1] == "services:"


def test_the_patch_for_swarm_is_a_command_per_service() -> None:
    web, db = PATCHES["swarm"](SIZES)
    assert web == (
        "docker service update --reserve-cpu 0.251 --reserve-memory 96M"
        " --limit-cpu 1 --limit-memory 191M shop/web"
    )
    assert "cpu" not in db


def test_the_patch_for_kubernetes_is_a_command_per_workload() -> None:
    web, db = PATCHES["kubernetes"](SIZES)
    assert web == (
        "kubectl --namespace shop set resources deployment/web"
        " --requests=cpu=251m,memory=96Mi --limits=cpu=1000m,memory=191Mi"
    )
    assert db.endswith("--requests=memory=1024Mi --limits=memory=2048Mi")


def test_a_name_from_a_node_cannot_become_a_command() -> None:
    hostile = size("web; rm -rf /", (1.0, 1.0))
    [line] = PATCHES["swarm"]([hostile])
    assert line.endswith("'web; rm -rf /'")


def test_a_patch_warns_of_services_that_were_observed_for_less_than_a_day() -> None:
    new, old = {"service": "shop/web\nreboot", "observed_days": 0.1}, {"service": "b", "observed_days": 1.0}
    [line] = patch_warnings([new, old])
    assert line == (
        "# Warning: 'shop/web\\nreboot' was observed for 2.4 h only. A busier hour may exceed these limits:"
        " wait for a day."
    )


def test_what_is_unknown_or_tiny_in_the_detail_of_a_size_is_explained() -> None:
    amounts = {
        "request": 0.02,
        "limit": 0.02,
        "present": None,
        "change": None,
        "vpa": 0.025,
        "used": 0.0,
        "peak": 0.0,
    }
    size = {
        "service": "web",
        "containers": 1,
        "observed_days": 0.0,
        "confidence": 0.0,
        "cpu": {**amounts, "used": 0.0, "peak": 0.0, "above_ratio": 8.8e-27},
        "memory": None,
        "out_of_memory": False,
        "nodes_change": None,
        "watts_change": None,
    }
    lines = list(format_size(size))
    assert lines[3].endswith("above the request less than 0.01% of the time")
    assert (
        lines[-1] == "change of the reserved resources: unknown, because its containers have no requests now"
    )

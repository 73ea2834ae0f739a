import os
from pathlib import Path

import pytest

from tests.lab import install, parts


@pytest.fixture
def apt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A Debian whose apt-get only writes down what it was asked, and fails once a file `broken` is there."""
    (tmp_path / "apt-get").write_text(
        f"""#!/bin/sh
        echo "$DEBIAN_FRONTEND $*" >>{tmp_path}/asked
        ls {tmp_path}/policy-rc.d >>{tmp_path}/asked 2>&1
        [ ! -e {tmp_path}/broken ] || {{ echo "E: Unable to reach the mirror"; exit 100; }}
        """,
        encoding="utf-8",
    )
    (tmp_path / "dpkg-query").write_text(
        '#!/bin/sh\necho "dash installed"\necho "gone not-installed"\nexit 1\n', encoding="ascii"
    )
    for program in ("apt-get", "dpkg-query"):
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(install, "POLICY", tmp_path / "policy-rc.d")
    monkeypatch.setattr(install, "_is_debian", lambda: True)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.delenv("CI", raising=False)
    use(monkeypatch, {"no-such-a": "gone", "no-such-b": "unheard-of"})
    return tmp_path


def use(monkeypatch: pytest.MonkeyPatch, programs: dict[str, str]) -> None:
    table = {"thing": parts.Part("thing", {"sh": "dash", **programs})}
    monkeypatch.setattr(install, "PARTS", table)


def test_missing_packages_are_installed_while_no_service_may_start(apt: Path) -> None:
    assert install.main() == 0
    update, policy, install_line, _ = (apt / "asked").read_text(encoding="utf-8").splitlines()
    assert update.startswith("noninteractive")
    assert update.endswith("update")
    assert policy == f"{apt}/policy-rc.d"
    assert install_line.endswith("install --no-install-recommends gone unheard-of")
    assert not (apt / "policy-rc.d").exists()


def test_a_policy_that_was_there_before_stays(apt: Path) -> None:
    (apt / "policy-rc.d").write_text("theirs", encoding="ascii")
    assert install.main() == 0
    assert (apt / "policy-rc.d").read_text(encoding="ascii") == "theirs"


def test_nothing_is_done_when_all_is_there(
    apt: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, {})
    assert install.main() == 0
    assert not (apt / "asked").exists()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("ci", "status"), [("", 0), ("true", 1)])
def test_a_failure_is_one_sentence_and_fails_only_ci(
    apt: Path, ci: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CI", ci)
    (apt / "broken").touch()
    assert install.main() == status
    error = capsys.readouterr().err
    assert error.startswith("lab: apt-get update failed (E: Unable to reach the mirror): ")
    assert error.count("\n") == 1
    assert not (apt / "policy-rc.d").exists()


def test_without_root_one_line_lists_what_is_left_out(
    apt: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert install.main() == 0
    output = capsys.readouterr().out
    assert output.count("\n") == 1
    assert "thing (needs no-such-a, no-such-b (Debian: apt-get install gone unheard-of))" in output
    assert not (apt / "asked").exists()


def test_without_root_nothing_is_printed_if_all_parts_can_run(
    apt: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    use(monkeypatch, {})
    assert install.main() == 0
    assert capsys.readouterr() == ("", "")
    assert not (apt / "asked").exists()

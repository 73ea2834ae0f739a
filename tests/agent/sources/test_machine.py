from pathlib import Path

import pytest

from agent.sources.host import read_machine


@pytest.mark.parametrize("machine_id", ["", "uninitialized\n", None])
def test_the_serial_number_stands_in_for_a_missing_id(tmp_path: Path, machine_id: str | None) -> None:
    if machine_id is not None:
        (tmp_path / "machine-id").write_text(machine_id, encoding="ascii")
    assert read_machine(str(tmp_path), str(tmp_path)) is None
    (tmp_path / "class/dmi/id").mkdir(parents=True)
    (tmp_path / "class/dmi/id/product_uuid").write_text("4c4c4544\n", encoding="ascii")
    assert read_machine(str(tmp_path), str(tmp_path)) is not None


def test_the_id_itself_is_not_revealed(tmp_path: Path) -> None:
    (tmp_path / "machine-id").write_text("0123456789abcdef\n", encoding="ascii")
    machine = read_machine(str(tmp_path), str(tmp_path))
    assert machine == read_machine(str(tmp_path), str(tmp_path))
    assert machine is not None
    assert "0123456789abcdef" not in machine
    (tmp_path / "machine-id").write_text("0123456789abcdee\n", encoding="ascii")
    assert machine != read_machine(str(tmp_path), str(tmp_path))

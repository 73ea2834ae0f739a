import sqlite3
from pathlib import Path

import pytest

from collector.features.prometheus.history import Outbox
from wire.errors import UserError

ROOM = 1000


def bodies(outbox: Outbox, size_bytes: int = 3 * ROOM) -> list[bytes]:
    return [entry.body for entry in outbox.oldest(size_bytes)]


def test_the_outbox_keeps_its_order_and_survives_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "outbox")
    outbox = Outbox(path, ROOM)
    outbox.put(b"one", 1)
    outbox.put(b"three", 3)
    # Killed: it is not closed.
    again = Outbox(path, ROOM)
    assert bodies(again) == [b"one", b"three"]
    assert (again.stored_bytes, again.waiting_reports) == (8, 4)
    again.remove(again.oldest(1))
    assert (again.stored_bytes, again.waiting_reports) == (5, 3)
    again.close()
    outbox.close()


def test_the_oldest_go_when_there_is_no_more_room_and_are_counted() -> None:
    outbox = Outbox(":memory:", ROOM)
    for number in range(10):
        outbox.put(bytes([number]) * 300, 2)
    assert [body[0] for body in bodies(outbox)] == [7, 8, 9]
    assert (outbox.dropped_reports, outbox.waiting_reports, outbox.stored_bytes) == (14, 6, 900)
    outbox.close()


def test_one_that_is_too_large_for_all_the_room_is_kept_alone() -> None:
    outbox = Outbox(":memory:", ROOM)
    outbox.put(b"small", 1)
    outbox.put(b"x" * 2 * ROOM, 1)
    assert bodies(outbox) == [b"x" * 2 * ROOM]
    outbox.close()


def test_a_batch_dropped_while_it_was_sent_is_counted_once() -> None:
    outbox = Outbox(":memory:", ROOM)
    outbox.put(b"a" * 600, 1)
    sent = outbox.oldest(ROOM)
    outbox.put(b"b" * 600, 1)
    outbox.remove(sent)
    assert (outbox.stored_bytes, outbox.dropped_reports) == (600, 1)
    outbox.close()


def test_as_many_are_given_as_have_a_size() -> None:
    outbox = Outbox(":memory:", ROOM)
    outbox.put(b"large", 1)
    outbox.put(b"next", 1)
    assert bodies(outbox, 1) == [b"large"]
    assert bodies(outbox, 5) == [b"large"]
    assert bodies(outbox, 6) == [b"large", b"next"]
    outbox.close()


def test_a_damaged_outbox_is_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "outbox"
    file.write_text("noise of a page or more " * 300)
    outbox = Outbox(str(file), ROOM)
    outbox.put(b"new", 1)
    assert bodies(outbox, 1) == [b"new"]
    outbox.close()
    (aside,) = tmp_path.glob("outbox.damaged-*")
    assert aside.read_text().startswith("noise")
    assert str(aside) in caplog.text


def test_an_outbox_that_cannot_be_opened_is_an_error_of_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot open the outbox"):
        Outbox(str(tmp_path), ROOM)


def test_a_put_that_fails_changes_nothing() -> None:
    outbox = Outbox(":memory:", ROOM)
    outbox.put(b"a" * 900, 1)
    outbox._connection.execute(
        "CREATE TRIGGER no BEFORE INSERT ON outbox BEGIN SELECT RAISE(FAIL, 'no'); END"
    )
    with pytest.raises(sqlite3.Error):
        outbox.put(b"b" * 900, 1)
    assert bodies(outbox) == [b"a" * 900]
    assert (outbox.stored_bytes, outbox.dropped_reports) == (900, 0)
    outbox.close()

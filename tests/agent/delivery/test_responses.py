import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.delivery.responses import (
    Backoff,
    ClockOffset,
    Rejected,
    Retry,
    parse_response,
    parse_retry_after,
)
from wire.messages import Receipt, encode

RECEIPT = Receipt(accepted=2, duplicates=1, rejected=0, server_time=5.0)


def test_a_receipt_is_the_only_acknowledgement() -> None:
    assert parse_response(200, {}, encode(RECEIPT), 3) == RECEIPT
    for body in (b"", b"<html>some other service</html>", b'{"status": "ok"}', b"\xff\xfe"):
        answer = parse_response(200, {}, body, 3)
        assert isinstance(answer, Retry)
        assert answer.needs_attention


@pytest.mark.parametrize("status", [400, 410, 413, 415, 422])
def test_client_errors_reject_the_report(status: int) -> None:
    assert parse_response(status, {}, b"no", 3) == Rejected(f"{status} no", is_too_large=status == 413)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599, 100])
def test_server_errors_are_retried(status: int) -> None:
    assert parse_response(status, {}, b"", 3) == Retry(str(status))


@pytest.mark.parametrize("status", [301, 302, 307, 401, 403, 404, 405, 409])
def test_wrong_setting_is_reported_and_drops_nothing(status: int) -> None:
    answer = parse_response(status, {"Location": "https://there/"}, b"", 3)
    assert isinstance(answer, Retry)
    assert answer.needs_attention
    assert "check" in answer.why


@given(st.integers(), st.text(), st.binary(max_size=1000))
def test_any_response_is_parsed(status: int, retry_after: str, body: bytes) -> None:
    answer = parse_response(status, {"Retry-After": retry_after}, body, 3)
    assert isinstance(answer, Receipt | Rejected | Retry)


def test_retry_after_is_a_number_of_seconds() -> None:
    assert parse_retry_after({"Retry-After": "77"}) == 77
    assert parse_retry_after({"Retry-After": "99999999"}) == 900
    assert parse_retry_after({"Retry-After": "soon"}) is None
    assert parse_retry_after({"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}) is None
    assert parse_retry_after({}) is None


@given(st.floats(0, 1, exclude_max=True))
def test_backoff_grows_to_half_a_minute_and_resets(chance: float) -> None:
    backoff = Backoff(lambda: chance)
    waits = [backoff.wait_seconds() for _ in range(20)]
    assert waits == sorted(waits)
    assert 0.5 <= waits[0] <= 1
    assert 15 <= waits[-1] <= 30
    backoff.reset()
    assert backoff.wait_seconds() == waits[0]


@given(st.floats(0, 1, exclude_max=True), st.floats(0, 900))
def test_wait_is_never_shorter_than_requested(chance: float, requested: float) -> None:
    backoff = Backoff(lambda: chance)
    assert all(requested <= backoff.wait_seconds(requested) <= max(requested, 30) * 1.25 for _ in range(10))


def test_configuration_errors_are_retried_slowly() -> None:
    backoff = Backoff(lambda: 0.0)
    waits = [backoff.wait_seconds(needs_attention=True) for _ in range(8)]
    assert waits == [1, 2, 4, 8, 15, 30, 120, 120]


def test_waits_have_jitter() -> None:
    assert len({Backoff().wait_seconds() for _ in range(20)}) == 20


def test_the_offset_is_the_median_of_the_last_quick_answers() -> None:
    clock = ClockOffset()
    assert clock.seconds is None
    clock.update(server_time=1010.0, responded_at=1000.0, took_seconds=30.0)
    assert clock.seconds is None, "a slow response does not count"
    for error in (0.0, 0.1, -0.1, 0.2, 500.0):
        clock.update(server_time=1010.0 + error, responded_at=1000.05, took_seconds=0.1)
    assert clock.seconds == pytest.approx(10.1)
    for _ in range(5):
        clock.update(server_time=1000.0, responded_at=1000.0, took_seconds=0.0)
    assert clock.seconds == 0.0

from agent.sources.host import GapRecorder
from wire.messages import Gap


def test_failed_source_is_a_gap_and_the_next_is_read() -> None:
    attempts = GapRecorder()

    def broken() -> int:
        raise OSError("input/output error")

    assert attempts.read("host disk", broken, None) is None
    assert attempts.read("host load", lambda: 1.5, None) == 1.5
    assert attempts.failures == [Gap("host disk", "cannot be read (OSError: input/output error)")]

import io

from bench.common.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_without_a_terminal_a_line_is_printed_from_time_to_time() -> None:
    stream, clock = io.StringIO(), Clock()
    Progress(stream, clock=clock, sleep=clock.sleep).wait("measuring", 25)
    assert stream.getvalue().splitlines() == [
        "measuring: 0 of 25 s",
        "measuring: 10 of 25 s",
        "measuring: 20 of 25 s",
    ]
    assert clock.now == 25


def test_on_a_terminal_one_line_is_redrawn() -> None:
    stream, clock = Terminal(), Clock()
    with Progress(stream, clock=clock).track("containers", 4) as show:
        show(2)
        show(4)
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert f"[{'#' * 15}{'.' * 15}] containers: 2 of 4" in text
    assert text.endswith(f"[{'#' * 30}] containers: 4 of 4\n")

import argparse
import io
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.common.progress import Progress
from bench.fuzz import reports as fuzz
from bench.fuzz.mutations import Mutator, batch
from collector.serve.ingest import parse_reports
from wire.messages import encode


def seeded(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - repeatable, not secret


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**64))
def test_an_invalid_body_is_accepted_or_rejected(seed: int) -> None:
    mutator = Mutator(seeded(seed))
    assert {fuzz.parse_outcome(mutator.next()) for _ in range(20)} <= {"taken", "refused"}


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**64))
def test_mutations_start_from_valid_reports(seed: int) -> None:
    whole = tuple(batch(seeded(seed)))
    assert parse_reports(encode(whole)) == whole


def test_the_same_seed_makes_the_same_bodies_of_every_kind() -> None:
    first, again = (Mutator(seeded(7)) for _ in range(2))
    bodies = [first.next() for _ in range(500)]
    assert bodies == [again.next() for _ in range(500)]
    assert {body.encoding for body in bodies} == {"identity", "gzip"}
    assert len({body.content_type for body in bodies}) == 2
    assert {fuzz.parse_outcome(body) for body in bodies} == {"taken", "refused"}


@pytest.mark.slow
def test_the_benchmark_runs_small() -> None:
    options = argparse.Namespace(bodies=500, requests=100, seed=1)
    result = fuzz.run(options, Progress(io.StringIO()))
    figures = {figure.name: figure for figure in result.figures}
    for name in ("crashes", "undocumented", "bodies", "requests"):
        assert figures[name].ok, figures[name]
    assert figures["status_200"].value
    assert figures["status_400"].value

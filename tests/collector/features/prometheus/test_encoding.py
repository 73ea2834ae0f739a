import math
import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from collector.features.prometheus.encoding import (
    STALE,
    compress,
    decompress,
    labels,
    sample,
    series,
    time_bytes,
)
from tests.collector.features.prometheus.decoding import decode

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300)
label_sets = st.dictionaries(texts, texts, max_size=5)
times = st.integers(2**35, 2**42 - 1)
numbers = st.floats(allow_nan=False)


@given(st.lists(st.tuples(label_sets, st.lists(st.tuples(times, numbers), min_size=1)), max_size=4))
def test_a_store_reads_what_was_written(spoken: list[tuple[dict[str, str], list[tuple[int, float]]]]) -> None:
    request = b"".join(
        series(
            labels(pairs),
            np.array([at / 1000 for at, _ in samples]),
            np.array([value for _, value in samples]),
        )
        for pairs, samples in spoken
    )
    read = decode(decompress(compress(request)))
    assert [dict(each.labels) for each in read] == [pairs for pairs, _ in spoken]
    assert [list(each.samples) for each in read] == [samples for _, samples in spoken]
    assert all(list(each.labels) == sorted(each.labels) for each in read)


@given(label_sets, times, numbers)
def test_one_sample_is_written_as_a_series_of_one(pairs: dict[str, str], at: int, value: float) -> None:
    alone = sample(labels(pairs), time_bytes(at / 1000), value)
    assert alone == series(labels(pairs), np.array([at / 1000]), np.array([value]))


def test_labels_that_are_empty_are_left_out() -> None:
    [read] = decode(sample(labels({"__name__": "up", "image": "", "id": "x"}), time_bytes(1.8e9), 1.0))
    assert read.labels == (("__name__", "up"), ("id", "x"))


def test_text_that_is_no_unicode_is_written_all_the_same() -> None:
    [read] = decode(sample(labels({"name": "a\udc80b"}), time_bytes(1.8e9), 1.0))
    assert read.labels == (("name", "a?b"),)


def test_the_end_of_a_series_is_the_nan_that_prometheus_defines() -> None:
    assert math.isnan(STALE)
    [read] = decode(sample(b"", time_bytes(1.8e9), STALE))
    [(_, value)] = read.samples
    assert struct.pack("<d", value) == bytes.fromhex("020000000000f07f")

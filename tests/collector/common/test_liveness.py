from math import inf

import numpy as np
import pytest

from collector.common.liveness import Liveness, LivenessRule

STARTED, BEACON = 1000.0, 5.0
UP, SUSPECT, DOWN = Liveness
DOWN_AFTER_BEACONS = 4.0
"""So a node is down after 20 s, and suspect after 10."""


@pytest.mark.parametrize(
    ("restored_after", "silent_before", "seconds", "expected"),
    [
        (-inf, 3, 4, UP),
        (-inf, 3, 18, DOWN),
        # Nothing is known of the time of a restore.
        (inf, 3, 600, UP),
        (inf, 15, 600, SUSPECT),
        (inf, 30, 600, DOWN),
        # After it, those that were not down have time to report again.
        (600, 15, 605, UP),
        (600, 15, 615, SUSPECT),
        (600, 15, 621, DOWN),
        (600, 30, 605, DOWN),
        # Those that have reported since are as usual.
        (600, -602, 610, UP),
        (600, -602, 625, DOWN),
    ],
)
def test_a_restore_does_not_make_nodes_silent(
    restored_after: float, silent_before: float, seconds: float, expected: Liveness
) -> None:
    rule = LivenessRule(DOWN_AFTER_BEACONS)
    rule.started_at, rule.restored_at = STARTED, STARTED + restored_after
    now, last_report_at = STARTED + seconds, STARTED - silent_before
    assert rule.of(now, last_report_at, BEACON) is expected
    assert rule.column(now, np.array([last_report_at]), np.array([BEACON])).tolist() == [expected]

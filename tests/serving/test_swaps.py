"""Lessons swapped under load: no request is lost, and no answer is another lesson's."""

import pytest

from benchmarks.serving import measure
from tests.classifier.test_export import can_export


@pytest.mark.slow
def test_no_request_is_lost_and_no_answer_mixed_while_lessons_are_swapped() -> None:
    """Each answer is what the model of its digest predicts for that image."""
    can_export()
    found = measure(requests=400, lessons=2, clients=4)
    for load in (found.quiet, found.swapping):
        assert (load.lost, load.mixed) == (0, 0)
    assert len(found.swapping.seconds) >= 400
    assert found.swapping.models == 3

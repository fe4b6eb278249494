"""What runs cost, worked out by hand for the toy scenario: every image that passes a net counts.

Three tasks of 12 images, two epochs, batches of 8 and 4, a memory of 12 rows and draws of 6: the
stream passes 72 images, and a draw that every step but the very first makes 66.
"""

from typing import Any

import pytest

from linsep import testing
from linsep.learning.run import Run
from linsep.methods import assemble

SHARED = {"memory": {"replay_batches": "shared"}}
STREAM, DRAWN = 72, 66
LATER, DRAWN_LATER = 48, 48  # of the second and third task


def toy(name: str, options: dict[str, Any] | None = None, **more: Any) -> tuple[Run, Any]:
    """A finished run, and what it cost."""
    run = testing.toy_run(assemble(name, options or {}), **more)
    for _ in run:
        pass
    return run, run.meter.facts(run.scenario, testing.toy_scenario())


@pytest.mark.parametrize(
    ("name", "options", "more", "forward", "backward", "frozen"),
    [
        ("ft", {}, {}, STREAM, STREAM, 0),
        ("jt", {"jt": {"data": "seen"}}, {}, 2 * (12 + 24 + 36), 144, 0),
        ("lwf", {}, {}, STREAM, STREAM, LATER),
        ("er", {}, {}, STREAM + DRAWN, STREAM + DRAWN, 0),
        ("er", {}, {"train": ["head"]}, STREAM + DRAWN, 0, 0),
        ("derpp+bfp", {}, {}, 204 + 48, 204 + 48, LATER + DRAWN_LATER),
        ("derpp+bfp", {}, SHARED, STREAM + DRAWN, STREAM + DRAWN, LATER + DRAWN_LATER),
        ("derpp+bfp", {"bfp": {"every": 2}}, {}, 204 + 24, 204 + 24, 4 * (8 + 6)),
        # Features are stored at each task's end, and no draw passes the frozen net.
        ("derpp+bfp", {"bfp": {"target": "stored"}}, {}, 252 + 3 * 12, 252, LATER),
        ("er+bfp", {"bfp": {"on": "replay"}}, {}, 138 + 48, 138 + 48, DRAWN_LATER),
        # A-GEM goes back twice through a shared draw, and FDR in two steps passes it twice.
        ("agem+bfp", {}, SHARED, STREAM + 48, STREAM + 96, 96),
        ("fdr+bfp", {"fdr": {"update": "two_steps"}}, SHARED, STREAM + 96 + 22, STREAM + 96, 96),
        # Twice forward and back beside the draw's pass, which has no gradient of its own.
        ("er+star", {}, {}, 138 + 3 * DRAWN, 138 + 2 * DRAWN, 0),
        ("ewc", {}, {}, STREAM + 36, STREAM + 36, 0),  # all rows again for Fisher's information
        # Herding and the exemplars' means: 12 images and 12 stored ones in each task.
        ("icarl", {}, {}, 24 + 2 * 48 + 3 * 24, 24 + 2 * 48, 96),
        # Between: 24 imprinted, 36 for herding; the fitting is a pass of the head over 12 rows.
        ("lucir", {}, {}, 120 + 24 + 36 + 36, 120, 96),
        ("gdumb", {}, {}, 36, 36, 0),  # an epoch on 12 stored images in each task
        ("er+transport", {}, {}, 138 + 36 + 24, 138, LATER),
        ("er+transport", {}, {"evaluation": {"batchnorm": "recalibrated"}}, 198, 138, LATER),
        ("er+ema+transport", {}, {}, 138 + 36 + 24, 138, LATER),
    ],
)
def test_every_image_is_counted(
    name: str, options: Any, more: Any, forward: int, backward: int, frozen: int
) -> None:
    _, cost = toy(name, options, **more)
    assert cost["run"] == {"forward": forward, "backward": backward, "frozen": frozen}
    assert cost["images"] == forward + 2 * backward + frozen
    assert cost["compute"] == cost["images"] / (3 * STREAM)


def test_the_table_of_the_page_is_what_steps_cost() -> None:
    """docs/cost.md, with draws as large as the batch."""
    rows = {
        ("ft", ""): (1, 1, 0), ("lwf", ""): (1, 1, 1), ("er", ""): (2, 2, 0),
        ("agem", ""): (2, 2, 0), ("fdr", ""): (2, 2, 0), ("derpp", ""): (3, 3, 0),
        ("er+bfp", ""): (3, 3, 2), ("derpp+bfp", ""): (4, 4, 2),
        ("derpp+bfp", "shared"): (2, 2, 2), ("derpp+ser", ""): (3, 3, 1),
        ("derpp+bfp+ser", ""): (4, 4, 2), ("derpp+lode+wa", ""): (3, 3, 0),
        ("derpp+star", ""): (6, 5, 0),
    }  # fmt: skip
    for (name, kind), multiples in rows.items():
        draws: dict[str, Any] = {"replay_batch_size": 8} | (SHARED["memory"] if kind else {})
        found = toy(name, memory=draws)[1]["step"]
        assert tuple(found.values()) == tuple(8 * times for times in multiples), (name, kind)


def test_a_step_is_the_mean_of_whole_ones() -> None:
    """Four steps of three rows in an epoch, and BFP in two of them."""
    _, cost = toy("ft+bfp", {"bfp": {"every": 2}}, training={"batch_size": 3})
    assert cost["step"] == {"forward": 3, "backward": 3, "frozen": 1.5}


def test_bytes_are_those_of_what_is_kept() -> None:
    pixels, classes = 1 * 8 * 8, 6
    net = toy("ft")[0].learner.net
    weights = sum(p.numel() for p in net.parameters())
    whole = sum(v.numel() * v.element_size() for v in net.state_dict().values())
    rows = {"images": 12 * pixels, "labels": 12 * 8}
    expected: dict[str, dict[str, int]] = {
        "ft": {},
        "er": rows,
        "derpp": rows | {"logits": 12 * classes * 4},
        "derpp+bfp": rows | {"logits": 12 * classes * 4, "frozen": whole},
        "lwf": {"frozen": whole},
        "ewc": {"terms": 2 * weights * 4},
        "jt": {"images": 24 * pixels},  # of the two tasks before the last
    }
    for name, kept in expected.items():
        cost = toy(name)[1]
        assert {part: size for part, size in cost["kept"].items() if size} == kept, name
        assert cost["bytes"] == sum(kept.values())
    for name, times in {"ft": 1, "er": 1, "lwf": 2, "ewc": 3}.items():
        assert toy(name)[1]["parameters"] == times * weights

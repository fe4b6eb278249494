"""A finished run in Python: what its folder says, and a net that predicts as it was tested."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linsep
from linsep.learning.metrics import METRICS
from tests.helpers.made_runs import make_run
from tests.helpers.real_runs import PROTOCOLS, interrupted


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # iCaRL predicts by class means, so going around Model.predict would be noticed.
    settings = {**PROTOCOLS, "method": "icarl", "memory": 16}
    return linsep.train(settings, runs=tmp_path_factory.mktemp("runs")).folder


def test_results_are_those_of_the_folder(folder: Path) -> None:
    run = linsep.load(folder)
    stored = json.loads((folder / "results.json").read_text())
    assert run.metrics == stored["metrics"]
    assert run.key == stored["key"]
    for matrix, protocol in ((run.accuracy, "class_il"), (run.task_il_accuracy, "task_il")):
        assert matrix.dtype == np.float64
        again = [[None if np.isnan(v) else v for v in row] for row in matrix.tolist()]
        assert again == stored["matrices"][protocol]
    assert run.config.scenario.name == "blobs"
    assert run.config.method == "icarl"


def test_a_run_is_found_by_its_folder_or_its_name(folder: Path) -> None:
    for named, runs in ((folder, "runs"), (str(folder), "runs"), (folder.name, folder.parent)):
        assert linsep.load(named, runs=runs).folder == folder
    with pytest.raises(linsep.LinsepError, match="is not a run"):
        linsep.load("nobody", runs=folder.parent)


def test_every_metric_follows_from_the_accuracy_matrix(folder: Path) -> None:
    run = linsep.load(folder)
    for name, metric in METRICS.items():
        assert metric.of(run.accuracy) == pytest.approx(run.metrics["class_il"][name])
    assert linsep.metrics.forgetting(run.accuracy) == run.metrics["class_il"]["ff"]


@pytest.mark.parametrize("form", ["tensor", "array", "channels last", "grey", "images"])
def test_predictions_on_the_test_images_give_the_last_row_of_the_matrix(
    folder: Path, form: str
) -> None:
    run = linsep.load(folder)
    shares = []
    for group in run.prepared.data.scenario.groups:
        pixels = group.test.pixels()
        forms: dict[str, Any] = {
            "tensor": pixels, "array": pixels.numpy(), "grey": pixels.numpy()[:, 0],
            "channels last": pixels.permute(0, 2, 3, 1).numpy(), "images": group.test,
        }  # fmt: skip
        truth = np.array(run.classes)[group.test.y.numpy()]
        shares.append((run.predict(forms[form]) == truth).mean())
    assert shares == pytest.approx(run.accuracy[-1].tolist())


def test_images_of_another_size_are_refused(folder: Path) -> None:
    with pytest.raises(linsep.LinsepError, match=r"images are 3x9x9 .* was trained on 1x8x8"):
        linsep.load(folder).predict(np.zeros((2, 9, 9, 3), np.uint8))


def test_a_folder_without_weights_has_results_and_says_what_is_missing(
    folder: Path, tmp_path: Path
) -> None:
    bare = Path(shutil.copytree(folder, tmp_path / folder.name))
    for name in ("model.safetensors", "state.safetensors"):
        (bare / name).unlink()
    shutil.rmtree(bare / "snapshots")
    run = linsep.load(bare)
    assert run.metrics["class_il"]["faa"] is not None
    with pytest.raises(linsep.LinsepError, match=r"without its final weights.*task02.safetensors"):
        run.net  # noqa: B018


def test_an_unfinished_run_cannot_be_loaded_but_is_listed(tmp_path: Path) -> None:
    folder = interrupted(tmp_path, steps=9)
    with pytest.raises(linsep.LinsepError, match=r"is not finished \(task 1"):
        linsep.load(folder)
    (listed,) = linsep.runs(runs=tmp_path)
    assert "unfinished: task 1" in repr(listed)
    with pytest.raises(linsep.LinsepError, match="is not finished: task 1"):
        listed.metrics  # noqa: B018


def test_reprs_are_short_and_html_is_escaped(folder: Path, tmp_path: Path) -> None:
    run = linsep.load(folder)
    assert repr(run).startswith(f"SavedRun({folder.name!r}, FAA ")
    assert len(repr(run)) < 120
    assert run._repr_html_().count("<tr>") == 3 + 3  # metrics, and accuracies over two tasks
    assert run._repr_html_().count('src="data:image/png') == 1
    odd = linsep.load(make_run(tmp_path, faa=50.0, label="<b>&"))
    assert "<b>&" not in odd._repr_html_()
    assert "&lt;b&gt;&amp;" in odd._repr_html_()


def test_plot_draws_a_line_for_each_task_and_the_average(folder: Path) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    run = linsep.load(folder)
    axes = run.plot()
    lines = {line.get_label(): line.get_ydata() for line in axes.get_lines()}
    assert list(lines) == ["task 1", "task 2", "average"]
    assert lines["task 1"] == pytest.approx(100 * run.accuracy[:, 0])
    assert lines["average"][-1] == pytest.approx(run.metrics["class_il"]["faa"])
    assert run.plot("task_il", axes=axes) is axes
    with pytest.raises(linsep.LinsepError, match="unknown protocol 'class'"):
        run.plot("class")
    pyplot.close("all")


def test_accuracy_frame_is_the_matrix_in_percent(folder: Path) -> None:
    pytest.importorskip("pandas")
    run = linsep.load(folder)
    frame = run.accuracy_frame()
    assert frame.loc["after task 2", "on task 1"] == pytest.approx(100 * run.accuracy[1, 0])

"""`linsep data`, as a user types it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from linsep.cli.data import app
from linsep.data.arrays import from_arrays
from linsep.data.images import duplicates, pixel_statistics
from linsep.data.published import cache_home, data_folder
from linsep.data.registry import SOURCES
from linsep.errors import ConfigError, DataError, LinsepError
from linsep.prepare import prepare
from linsep.settings.config import from_settings
from tests.helpers.made_data import noise, write_folder


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LINSEP_CACHE", str(tmp_path / "cache"))


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    if isinstance(result.exception, LinsepError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_list_names_every_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "cifar-100-python").mkdir()
    for name in ("train", "test", "meta"):
        (tmp_path / "cifar-100-python" / name).touch()
    (tmp_path / "cifar-10-batches-py").mkdir()  # which is empty
    output = run("list", "--data", tmp_path)
    lines = {line.split()[0]: line for line in output.splitlines() if line}
    assert set(SOURCES) <= set(lines)
    assert " yes " in lines["split-cifar100"]
    assert " no " in lines["split-cifar10"]
    assert str(tmp_path) in output


def test_prepare_check_and_show_a_folder(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "d")
    assert "6 training and 6 test images of 2 classes, 12x12, colour" in run(
        "prepare", "folder", "--data", root
    )
    output = run("check", "folder", "--data", root)
    assert "training images per class: 3\n" in output
    assert "also training images: 0" in output
    assert "12 images, unchanged" in output
    run("draw", "folder", "--data", root, "-o", tmp_path / "x.png", "--per-task", 1, "--images", 2)
    with Image.open(tmp_path / "x.png") as picture:
        pixels = np.asarray(picture)
    first = np.asarray(
        Image.fromarray(noise(0, 12, 12, 3)).resize((56, 56), Image.Resampling.NEAREST)
    )
    places = [
        (y, x)
        for y in range(pixels.shape[0] - 56)
        for x in range(20)
        if np.array_equal(pixels[y : y + 56, x : x + 56], first)
    ]
    assert len(places) == 1  # the first image of the first class, in the first column


@pytest.mark.parametrize(
    ("name", "per_task"),
    [("blobs", None), ("blobs", 3), ("folder", None), ("folder", 1), ("table", None), ("table", 1)],
)
@pytest.mark.filterwarnings("ignore::linsep.data.images.DuplicateWarning")
def test_show_draws_what_run_would_learn_and_refuses_what_run_refuses(
    tmp_path: Path, name: str, per_task: int | None
) -> None:
    root = write_folder(tmp_path / "d", count=8)
    files = sorted((root / "train").rglob("*.png"))
    lines = [f"{file.relative_to(tmp_path)},{i % 2},{i // 8}" for i, file in enumerate(files)]
    (tmp_path / "t.csv").write_text("\n".join(["file,label,task", *lines]))
    place = {"blobs": None, "folder": root, "table": tmp_path / "t.csv"}[name]
    given = {"name": name, "per_task": per_task, "data": str(place) if place else None}
    options = [
        *(("--data", place) if place else ()),
        *(("--per-task", per_task) if per_task else ()),
    ]

    def outcome(work: Callable[[], str]) -> str:
        try:
            return work()
        except LinsepError as error:
            return str(error)

    def learned() -> str:
        config = from_settings({"scenario": given, "method": "ft", "net": "mlp"})
        return f"{len(prepare(config).data.scenario.tasks)} tasks"

    drawn = outcome(lambda: run("draw", name, *options, "-o", tmp_path / "x.png"))
    assert outcome(learned) in drawn


def test_check_verifies_its_own_cache_and_no_other(tmp_path: Path) -> None:
    for i in range(2):
        run("prepare", "folder", "--data", write_folder(tmp_path / str(i), count=2 + i))
    lines = run("check", "folder", "--data", tmp_path / "0").splitlines()
    assert [line for line in lines if "unchanged" in line] == lines[-1:]
    assert "8 images, unchanged" in lines[-1]
    (Path(lines[-1].rpartition(": ")[0]) / "digests.bin").unlink()
    with pytest.raises(DataError, match=r"digests\.bin cannot be read: No such file"):
        run("check", "folder", "--data", tmp_path / "0")


@pytest.mark.parametrize("place", ["file/x.png", "folder.png", "/proc/none/x.png"])
def test_a_picture_that_cannot_be_written_is_one_line(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(DataError, match="cannot be written"):
        run("draw", "blobs", "-o", tmp_path / place)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("check", "cifar10"), DataError, "linsep data get cifar10"),
        (("check", "cifar1"), ConfigError, "Did you mean 'split-cifar10'"),
        (("check", "folder"), ConfigError, r"scenario.data is missing \(--data\)"),
        (("check", "cifar10", "--image-size", 3), ConfigError, "image_size"),
        (("get", "imagenet100"), DataError, "cannot be fetched"),
        (("get", "folder"), DataError, "reads your own files"),
        (("draw", "cifar10", "-o", "x.jpg"), ConfigError, "call it x.png"),
    ],
)
def test_mistakes_are_told(
    arguments: tuple[object, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        run(*arguments)


def test_where_data_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINSEP_DATA", "~/there")
    assert data_folder(tmp_path) == tmp_path
    assert data_folder() == Path.home() / "there"
    monkeypatch.delenv("LINSEP_DATA")
    assert data_folder() == tmp_path / "cache" / "data"
    monkeypatch.delenv("LINSEP_CACHE")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_home() == tmp_path / "xdg" / "linsep"
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache_home() == Path.home() / "Library" / "Caches" / "linsep"


@pytest.mark.filterwarnings("ignore::linsep.data.images.DuplicateWarning")
def test_what_is_measured() -> None:
    x = noise(0, 50, 4, 4, 3)
    y = np.arange(50) % 2
    data = from_arrays(x, y, x[:3], y[:3])
    found = pixel_statistics(data.train)
    np.testing.assert_allclose(found.mean, (x / 255).mean((0, 1, 2)), atol=1e-12)
    np.testing.assert_allclose(found.std, (x / 255).std((0, 1, 2)), atol=1e-12)
    assert data.train.counts(3) == [25, 25, 0]
    assert duplicates(data) == 3

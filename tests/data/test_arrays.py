"""Arrays, torch's Datasets and Hugging Face's become the same two sets of images, or one line."""

import contextlib
import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from linsep.data.arrays import arrays, from_arrays
from linsep.data.images import Dataset, DuplicateWarning
from linsep.data.objects import from_code, from_huggingface, from_torch
from linsep.errors import DataError
from tests.helpers.made_data import noise

pytestmark = pytest.mark.filterwarnings("ignore::linsep.data.images.DuplicateWarning")
X, Y = noise(0, 12, 6, 5, 3), np.arange(12) % 3
WANT = torch.from_numpy(X.transpose(0, 3, 1, 2).copy())


@pytest.mark.parametrize(
    ("x", "want"),
    [
        (X, WANT),
        (X.transpose(0, 3, 1, 2), WANT),
        (torch.from_numpy(X).float() / 255, WANT),
        (X / 255, WANT),
        ((X / 255).astype(">f4"), WANT),
        ((X / 255).astype("g"), WANT),
        (X[..., 0], WANT[:, :1]),
        (X[..., :1], WANT[:, :1]),
    ],
)
def test_every_usual_form_of_images(x: Any, want: Tensor) -> None:
    data = from_arrays(x, Y, x, Y)
    assert torch.equal(data.train.pixels(), want)
    assert data.train.pixels().dtype == torch.uint8


@pytest.mark.parametrize(
    ("y", "names", "labels"),
    [
        (Y * 10 + 5, ("5", "15", "25"), Y),
        (np.array(["b", "a", "c"])[Y], ("a", "b", "c"), np.array([1, 0, 2])[Y]),
        (Y[:, None].astype(">i8"), ("0", "1", "2"), Y),
        (Y.tolist(), ("0", "1", "2"), Y),
        (torch.from_numpy(Y), ("0", "1", "2"), Y),
    ],
)
def test_every_usual_form_of_labels(y: Any, names: tuple[str, ...], labels: Any) -> None:
    data = from_arrays(X, y, X, y)
    assert data.names == names
    assert data.train.y.tolist() == labels.tolist()


def test_duplicates_are_counted_and_warned_of() -> None:
    with pytest.warns(DuplicateWarning, match="3 test images are also training images"):
        from_arrays(X, Y, X[:3], Y[:3])
    twice = np.concatenate([X[:1], X[:1], noise(9, 4, 6, 5, 3)])
    with pytest.warns(DuplicateWarning, match="1 test images"):
        from_arrays(twice, [0, 0, 1, 1, 2, 2], test_share=0.5)


def test_a_share_is_held_out_of_every_class_without_copying() -> None:
    x = WANT.clone()
    data = from_arrays(x, Y, test_share=0.25, names=("a", "b", "c"))
    assert data.test.y.bincount().tolist() == [1, 1, 1]
    assert data.train.sources[0].data_ptr() == x.data_ptr()
    assert sorted(data.train.rows.tolist() + data.test.rows.tolist()) == list(range(12))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: from_arrays(X, Y, x_test=X), "test labels are missing"),
        (lambda: from_arrays(X, Y, y_test=Y), "test images are missing"),
        (lambda: from_arrays(X, Y - 1, X, Y - 1), "a label is -1"),  # which often means unlabelled
        (lambda: from_arrays(X, Y[:5]), r"labels of shape \(5,\) for 12 images"),
        (lambda: from_arrays(X, Y + 0.5), "labels are float64"),
        (lambda: from_arrays(X.astype(np.float32), Y), "floats must be 0 to 1"),
        (lambda: from_arrays(np.full((2, 4, 4), np.nan), [0, 1]), "floats must be 0 to 1"),
        (lambda: from_arrays(noise(0, 4, 6, 5, 2), Y[:4]), "must have 1 or 3 channels"),
        (lambda: from_arrays(X, Y, names=("a", "b")), "do not fit 2 names"),
        (lambda: from_arrays(X, Y.astype(str), names=("a", "b", "c")), "labels <U.* do not fit 3"),
        (lambda: from_arrays(X, Y, X, Y.astype(str)), "training labels are int64, test labels <U"),
        (lambda: from_arrays(X, [0, [1]] * 6), "labels of mixed types"),
        (lambda: from_arrays(X, Y, X[:2], Y[:2]), "class '2' has no test image"),
        (lambda: from_arrays(X[:4], Y[:4]), "has one image"),
        (lambda: from_arrays(X, Y, X[:3, :5], Y[:3]), "training images .* test"),
    ],
)
def test_wrong_arrays_are_told(make: Callable[[], Dataset], message: str) -> None:
    with pytest.raises(DataError, match=message):
        make()


@pytest.mark.parametrize("kind", ["S5", "V8", "M8[s]", "c8", "?", "O", "i8"])
def test_pixels_and_labels_of_the_wrong_kind(tmp_path: Path, kind: str) -> None:
    wrong = np.zeros(X.shape, kind)
    np.savez(tmp_path / "a.npz", x=wrong, y=Y)
    with pytest.raises(DataError, match=r"a\.npz"):
        arrays(tmp_path / "a.npz")
    if kind not in ("S5", "?", "i8"):  # which labels may be
        with pytest.raises(DataError, match=r"arrays"):
            from_arrays(X, wrong[:, 0, 0, 0])


@pytest.mark.parametrize("shape", [(), (12,), (0, 6, 5, 3), (12, 6, 5, 0)])
@pytest.mark.parametrize("kind", ["u1", "f4"])
def test_arrays_of_the_wrong_shape(shape: tuple[int, ...], kind: str) -> None:
    with pytest.raises(DataError, match=r"images of shape|labels of shape|mixed types"):
        from_arrays(np.zeros(shape, kind), Y)


@pytest.mark.parametrize(
    "names",
    [
        ("x_train", "y_train", "x_test", "y_test"),
        ("train_images", "train_labels", "test_images", "test_labels"),
        ("X_train", "y_train", "X_val", "y_val"),
    ],
)
def test_npz_and_npy_under_their_usual_names(tmp_path: Path, names: tuple[str, ...]) -> None:
    content: dict[str, Any] = dict(zip(names, (X, Y, X[:3], Y[:3]), strict=True))
    np.savez_compressed(tmp_path / "a.npz", **content)
    (tmp_path / "d").mkdir()
    for name, array in content.items():
        np.save(tmp_path / "d" / f"{name}.npy", array)
    for place in (tmp_path / "a.npz", tmp_path / "d"):
        data = arrays(place)
        assert torch.equal(data.train.pixels(), WANT)
        assert data.test.y.tolist() == [0, 1, 2]


def test_npz_with_images_and_labels_alone(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=X, y=Y, names=np.array(["a", "b", "c"]))
    data = arrays(tmp_path / "a.npz", test_share=0.5)
    assert data.names == ("a", "b", "c")
    assert (len(data.train), len(data.test)) == (6, 6)


def test_files_of_arrays_that_are_not_what_they_should_be(tmp_path: Path) -> None:
    for content, message in (
        ({"y": Y}, "no train images"),
        ({"a": Y}, r"has the arrays \['a'\]; needs x_train"),
        ({"x": np.array([print, len]), "y": Y}, r"a\.npz cannot be read: Object arrays"),
    ):
        np.savez(tmp_path / "a.npz", **content)
        with pytest.raises(DataError, match=message):
            arrays(tmp_path / "a.npz")
    (tmp_path / "d").mkdir()
    np.save(tmp_path / "d" / "x.npy", np.array([print, len]))
    with pytest.raises(DataError, match=r"Object arrays|allow_pickle|object"):
        arrays(tmp_path / "d")
    with pytest.raises(DataError, match=r"neither an \.npz file nor a folder"):
        arrays(tmp_path / "nowhere")


def header(shape: tuple[int, ...]) -> bytes:
    return str({"descr": "|u1", "fortran_order": False, "shape": shape}).encode()


@pytest.mark.parametrize(
    "header",
    [
        header((10**6, 10**6, 10**6)),  # all the memory there is, and more
        header((10**10,)),
        header((-2, -6)),
        b"{'descr': '|u1', 'fortran_order': False, 'shape': (1,",
        b"(" * 3000,
        b"9" * 5000,
        b"\xff\xfe",
        b"{'descr': 'nonsense', 'fortran_order': False, 'shape': (2,)}",
    ],
)
def test_headers_that_are_nonsense(tmp_path: Path, header: bytes) -> None:
    raw = b"\x93NUMPY\x02\x00" + struct.pack("<I", len(header)) + header + bytes(40)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as zipped:
        zipped.writestr("x.npy", raw)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x.npy").write_bytes(raw)
    for place, name in (("a.npz", "a.npz"), ("d", "x.npy")):
        with pytest.raises(DataError, match=f"{name} cannot be read") as caught:
            arrays(tmp_path / place)
        assert "\n" not in str(caught.value)


def test_arrays_with_flipped_bytes_are_read_or_refused(tmp_path: Path) -> None:
    good = io.BytesIO()
    np.savez_compressed(good, x=noise(0, 12, 4, 4), y=Y)
    rng = np.random.default_rng(0)
    for _ in range(100):
        raw = bytearray(good.getvalue())
        for place in rng.integers(0, len(raw), 4):
            raw[place] = rng.integers(256)
        (tmp_path / "a.npz").write_bytes(raw)
        with contextlib.suppress(DataError):
            arrays(tmp_path / "a.npz")


class Pairs(torch.utils.data.Dataset[Any]):
    def __init__(self, make: Callable[[int], Any], count: int = 12) -> None:
        self.make, self.count = make, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> tuple[Any, Any]:
        return self.make(i), int(Y[i])


@pytest.mark.parametrize(
    "make",
    [
        lambda i: Image.fromarray(X[i]),
        lambda i: X[i],
        lambda i: WANT[i],
        lambda i: WANT[i].float() / 255,
    ],
)
def test_torch_datasets_of_pictures_arrays_and_tensors(make: Callable[[int], Any]) -> None:
    data = from_torch(Pairs(make), Pairs(make, 3), names=("a", "b", "c"))
    assert torch.equal(data.train.pixels(), WANT)
    assert data.test.y.tolist() == [0, 1, 2]
    assert data.names == ("a", "b", "c")


CODE = """
import torch
from torch.utils.data import TensorDataset
def make():
    x = torch.arange(8 * 3 * 4 * 4, dtype=torch.uint8).view(8, 3, 4, 4)
    return TensorDataset(x, torch.arange(8) % 2), TensorDataset(x[:2], torch.arange(2))
def fails():
    raise RuntimeError("no such\\nthing")
def odd():
    return 3
"""


def test_a_function_of_the_users(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CODE)
    data = from_code(Path(f"{tmp_path}/mine.py:make"))
    assert (len(data.train), len(data.test)) == (8, 2)
    for place, message in (
        (f"{tmp_path}/mine.py:other", "has no function 'other'"),
        ("no.such.module:make", "cannot be imported"),
        (f"{tmp_path}/mine.py:fails", "mine.py:fails failed: no such thing"),
        (f"{tmp_path}/mine.py:odd", "the Dataset cannot be read: object of type 'int' has no len"),
    ):
        with pytest.raises(DataError, match=message):
            from_code(Path(place))


def test_hugging_face_in_memory_and_on_disk(tmp_path: Path) -> None:
    hf = pytest.importorskip("datasets", reason="the extra `huggingface` is not installed")
    features = hf.Features({"image": hf.Image(), "kind": hf.ClassLabel(names=["a", "b", "c"])})
    rows = {"image": [Image.fromarray(x) for x in X], "kind": Y.tolist()}
    train = hf.Dataset.from_dict(rows, features=features)
    both = hf.DatasetDict({"train": train, "validation": train.select(range(3))})
    data = from_huggingface(both, label="kind")
    assert torch.equal(data.train.pixels(), WANT)
    assert data.test.y.tolist() == [0, 1, 2]
    assert data.names == ("a", "b", "c")
    both.save_to_disk(str(tmp_path / "hf"))
    again = from_huggingface(tmp_path / "hf", label="kind", image_size=5)
    assert again.train.shape == (3, 5, 5)
    train.save_to_disk(str(tmp_path / "one"))
    assert len(from_huggingface(tmp_path / "one", label="kind").test) == 3
    with pytest.raises(DataError, match="no column 'label'; found"):
        from_huggingface(train)
    with pytest.raises(DataError, match="is not a data set on disk"):
        from_huggingface(tmp_path / "nowhere")

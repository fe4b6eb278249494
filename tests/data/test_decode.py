"""Image files: every honest kind is read, every broken or monstrous one is named."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from linsep.data.sources.reading import MOST_PIXELS, read_image
from linsep.errors import DataError
from tests.helpers.made_data import noise, write_image


def test_shorter_side_and_square_in_the_middle(tmp_path: Path) -> None:
    """Side by side with the same done on the array: a 2:1 picture keeps its middle."""
    array = noise(0, 20, 40, 3)
    Image.fromarray(array).save(tmp_path / "a.png")
    want = array[:, 10:30].transpose(2, 0, 1)
    assert np.array_equal(read_image(tmp_path / "a.png", side=20), want)
    assert read_image(tmp_path / "a.png", side=64).shape == (3, 64, 64)
    assert read_image(tmp_path / "a.png", side=7, channels=1).shape == (1, 7, 7)


def test_photographs_are_turned_only_where_asked(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # held on its side
    Image.fromarray(noise(0, 10, 20, 3)).save(tmp_path / "a.jpg", exif=exif)
    assert read_image(tmp_path / "a.jpg").shape == (3, 10, 20)
    assert read_image(tmp_path / "a.jpg", upright=True).shape == (3, 20, 10)


def test_image_bombs_are_not_decoded(tmp_path: Path) -> None:
    side = int(MOST_PIXELS**0.5) + 100
    Image.new("1", (side, side)).save(tmp_path / "bomb.png")
    assert (tmp_path / "bomb.png").stat().st_size < 100_000
    with pytest.raises(DataError, match=r"bomb\.png has .* pixels; at most"):
        read_image(tmp_path / "bomb.png")
    Image.new("1", (20_000, 20_000)).save(tmp_path / "larger.png")  # beyond Pillow's own limit
    with pytest.raises(DataError, match=r"larger\.png"):
        read_image(tmp_path / "larger.png")


@pytest.mark.parametrize("size", [(1, 20_000), (20_000, 1), (30, 4_000)])
def test_nothing_is_resized_beyond_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    """Of 1x20000 pixels, a shorter side of 224 makes a thousand million."""
    Image.new("RGB", size).save(tmp_path / "thin.png")
    resize, made = Image.Image.resize, [0]

    def recorded(picture: Image.Image, to: tuple[int, int], *how: Any) -> Image.Image:
        made.append(to[0] * to[1])
        return resize(picture, to, *how)

    monkeypatch.setattr(Image.Image, "resize", recorded)
    if min(size) == 1:
        with pytest.raises(DataError, match=r"thin\.png, resized, has .*4480000.* pixels; at most"):
            read_image(tmp_path / "thin.png", side=224)
    else:
        assert read_image(tmp_path / "thin.png", side=224).shape == (3, 224, 224)
    assert max(made) <= MOST_PIXELS
    with pytest.raises(DataError, match="at most"):
        read_image(tmp_path / "thin.png", side=1_000_000)


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".bmp", ".gif", ".webp"])
def test_broken_images_are_named(tmp_path: Path, suffix: str) -> None:
    path = write_image(tmp_path / f"broken{suffix}", 0, (40, 40))
    whole = path.read_bytes()
    for content in (b"", b"hello", whole[:20], whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(DataError, match="broken"):
            read_image(path)


def test_other_formats_and_depths_are_refused(tmp_path: Path) -> None:
    (tmp_path / "script.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    with pytest.raises(DataError, match=r"script\.png"):
        read_image(tmp_path / "script.png")
    Image.fromarray(np.zeros((4, 4), np.uint16)).save(tmp_path / "deep.png")
    with pytest.raises(DataError, match="more than 8 bits"):
        read_image(tmp_path / "deep.png")


def test_every_kind_of_picture_becomes_plain_rgb(tmp_path: Path) -> None:
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA"):
        picture = Image.new("RGB", (5, 7), (200, 30, 90)).convert(mode)
        picture.save(tmp_path / f"{mode}.png")
        found = read_image(tmp_path / f"{mode}.png")
        assert found.shape == (3, 7, 5)
        if mode.startswith("RGB"):
            assert found[:, 0, 0].tolist() == [200, 30, 90]
    transparent = Image.new("P", (5, 7))
    transparent.save(tmp_path / "t.png", transparency=b"\x00\x10")
    assert read_image(tmp_path / "t.png", channels=1).shape == (1, 7, 5)

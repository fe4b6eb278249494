"""The batched pipeline against plain ones: Pillow image by image, and torch's own interpolation."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image, ImageOps
from torch import Tensor
from torch.testing import assert_close

from linsep.data.augment import (
    Augment,
    Draw,
    cut_crops,
    cut_crops_host,
    draw_boxes,
    draw_crops,
)
from linsep.data.scenarios import open_scenario
from linsep.settings.sections import Scenario

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2615)
CIFAR = Augment((32, 32), MEAN, STD, pad=4)
DIGITS = Augment((28, 28), (0.1307,), (0.3081,), pad=2, flip=False)
LARGE = Augment((24, 20), MEAN, STD, resized=True)


def images(n: int, c: int, h: int, w: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(
        np.random.default_rng(seed).integers(0, 256, (n, c, h, w), dtype=np.uint8)
    )


def pil_crop(augment: Augment, raw: Tensor, draw: Draw) -> Tensor:
    """Pad, crop, flip, to tensor, normalise: one picture at a time."""
    out = []
    for image, top, left, flip in zip(raw, draw.top, draw.left, draw.flip, strict=True):
        array = image.permute(1, 2, 0).numpy()
        picture = Image.fromarray(array[..., 0] if array.shape[-1] == 1 else array)
        picture = ImageOps.expand(picture, augment.pad, fill=0)
        height, width = augment.size
        picture = picture.crop((int(left), int(top), int(left) + width, int(top) + height))
        if flip:
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        x = torch.from_numpy(np.array(picture)).view(height, width, -1).permute(2, 0, 1).float()
        mean, std = (torch.tensor(v).view(-1, 1, 1) for v in (augment.mean, augment.std))
        out.append((x / 255 - mean) / std)
    return torch.stack(out)


@pytest.mark.parametrize(
    ("augment", "shape"),
    [
        (CIFAR, (3, 32, 32)),
        (DIGITS, (1, 28, 28)),
        (Augment((64, 64), MEAN, STD, pad=4), (3, 64, 64)),
        (Augment((20, 30), MEAN, STD), (3, 33, 47)),
    ],
)
def test_crops_match_pillow(augment: Augment, shape: tuple[int, int, int]) -> None:
    raw = images(17, *shape)
    draw = augment.draw(raw, np.random.default_rng(1))
    got = augment.apply(raw, draw)
    assert got.dtype == torch.float32
    assert got.shape == (17, shape[0], *augment.size)
    torch.testing.assert_close(got, pil_crop(augment, raw, draw), atol=2e-6, rtol=1e-6)


@pytest.mark.parametrize("shape", [(3, 40, 40), (1, 32, 32), (3, 33, 47)])
def test_host_and_device_cut_the_same_bits(shape: tuple[int, int, int]) -> None:
    raw = images(9, *shape)
    draw = draw_crops(np.random.default_rng(4), 9, shape[1:], (32, 30), True)
    assert torch.equal(cut_crops(raw, (32, 30), draw), cut_crops_host(raw, (32, 30), draw))
    plain = draw._replace(flip=np.zeros(9, bool))
    assert torch.equal(cut_crops(raw, (32, 30), plain), cut_crops_host(raw, (32, 30), plain))


def test_resized_boxes_match_cut_then_interpolate() -> None:
    raw = images(12, 3, 40, 31)
    draw = LARGE.draw(raw, np.random.default_rng(3))
    assert draw.height is not None
    assert draw.width is not None
    got = LARGE.apply(raw, draw)
    for i in range(12):
        t, le = int(draw.top[i]), int(draw.left[i])
        box = raw[i : i + 1, :, t : t + int(draw.height[i]), le : le + int(draw.width[i])].float()
        want = F.interpolate(box, LARGE.size, mode="bilinear", align_corners=False)[0]
        want = want.flip(-1) if draw.flip[i] else want
        mean, std = (torch.tensor(v).view(-1, 1, 1) for v in (MEAN, STD))
        torch.testing.assert_close(got[i], (want / 255 - mean) / std, atol=2e-4, rtol=0)


def test_boxes_stay_inside_and_have_the_asked_area_and_ratio() -> None:
    for room in ((256, 256), (10, 300), (300, 10), (1, 1)):
        d = draw_boxes(np.random.default_rng(0), 2000, room, True)
        assert d.height is not None
        assert d.width is not None
        assert (d.top >= 0).all()
        assert (d.left >= 0).all()
        assert (d.top + d.height <= room[0]).all()
        assert (d.left + d.width <= room[1]).all()
        assert min(d.height.min(), d.width.min()) >= 1
    d = draw_boxes(np.random.default_rng(0), 4000, (256, 256), True)
    assert d.height is not None
    assert d.width is not None
    share, ratio = d.height * d.width / 256**2, d.width / d.height
    assert 0.07 < share.min() < 0.1
    assert share.max() > 0.95
    assert 0.7 < ratio.min() < 0.78
    assert 1.28 < ratio.max() < 1.4
    assert abs(np.log(ratio).mean()) < 0.02
    assert abs(d.flip.mean() - 0.5) < 0.05


def test_crops_are_uniform() -> None:
    d = draw_crops(np.random.default_rng(0), 90_000, (40, 40), (32, 32), True)
    for counts in (np.bincount(d.top, minlength=9), np.bincount(d.left, minlength=9)):
        assert len(counts) == 9
        assert np.abs(counts / 10_000 - 1).max() < 0.05
    assert not draw_crops(np.random.default_rng(0), 99, (40, 40), (32, 32), False).flip.any()


@pytest.mark.parametrize(
    ("augment", "shape"), [(CIFAR, (3, 32, 32)), (DIGITS, (1, 28, 28)), (LARGE, (3, 32, 32))]
)
def test_same_generator_same_images_and_raw_untouched(
    augment: Augment, shape: tuple[int, int, int]
) -> None:
    raw = images(8, *shape)
    kept = raw.clone()
    one, two = (augment.train(raw, np.random.default_rng(5)) for _ in range(2))
    assert torch.equal(one, two)
    assert not torch.equal(one, augment.train(raw, np.random.default_rng(6)))
    assert torch.equal(raw, kept)
    assert one.shape == augment.eval(raw).shape


def test_an_image_does_not_depend_on_its_batch() -> None:
    raw = images(9, 3, 32, 32)
    draw = CIFAR.draw(raw, np.random.default_rng(2))
    whole = CIFAR.apply(raw, draw)
    part = Draw(draw.top[4:5], draw.left[4:5], draw.flip[4:5])
    assert torch.equal(CIFAR.apply(raw[4:5], part), whole[4:5])
    assert torch.equal(CIFAR.eval(raw)[4:5], CIFAR.eval(raw[4:5]))


# --- as the user wants it ------------------------------------------------------------------------


def opened(augment: object) -> Augment:
    wanted = {"name": "blobs", "classes": 4, "train": 4, "test": 2}
    return open_scenario(Scenario.model_validate(wanted | {"augment": augment})).augment


@pytest.mark.parametrize("size", [4, 8, 20])
def test_images_are_brought_to_the_size_that_is_wanted(size: int) -> None:
    augment, raw = opened({"size": size}), torch.full((5, 1, 8, 8), 100, dtype=torch.uint8)
    seen = augment.eval(raw)
    assert seen.shape == (5, 1, size, size)
    one = (100 / 255 - augment.mean[0]) / augment.std[0]
    assert_close(seen, torch.full_like(seen, one))
    assert augment.train(raw, np.random.default_rng(0)).shape == seen.shape

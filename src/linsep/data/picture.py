"""A scenario as one picture: a column for every task, a row for every class in it.

Knows Pillow and scenarios. Knows nothing of files: the caller saves the picture.
"""

from collections.abc import Iterator

from PIL import Image, ImageDraw, ImageFont

from .images import Images
from .tasks import Scenario

TILE = 56  # pixels that each image is drawn at
GAP = 2
TEXT = 13  # height of a line of text
BETWEEN = 14  # tasks
INK, PAPER = (40, 40, 40), (255, 255, 255)


def draw(scenario: Scenario, per_class: int = 3) -> Image.Image:
    """Draw the first training images of every class, task by task."""
    rows = max(len(task.classes) for task in scenario.tasks)
    column = per_class * (TILE + GAP) + BETWEEN
    row = TILE + TEXT + GAP
    size = (len(scenario.tasks) * column + BETWEEN, TEXT + 2 * GAP + rows * row + GAP)
    picture = Image.new("RGB", size, PAPER)
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(10)
    for t, task in enumerate(scenario.tasks):
        x = BETWEEN // 2 + t * column
        pen.text((x, GAP), f"task {t + 1}", INK, font)
        for r, c in enumerate(task.classes):
            y = TEXT + 2 * GAP + r * row
            name = _shortened(scenario.names[c], column - BETWEEN, font)
            pen.text((x, y + TILE), name, INK, font)
            for i, tile in enumerate(_tiles(task.train, c, per_class)):
                picture.paste(tile, (x + i * (TILE + GAP), y))
    return picture


def _tiles(images: Images, label: int, count: int) -> Iterator[Image.Image]:
    rows = (images.y == label).nonzero()[:count, 0]
    for array in images.take(rows).pixels().permute(0, 2, 3, 1).numpy():
        tile = Image.fromarray(array[..., 0] if array.shape[-1] == 1 else array).convert("RGB")
        how = Image.Resampling.NEAREST if max(tile.size) < TILE else Image.Resampling.BOX
        yield tile.resize((TILE, TILE), how)


def _shortened(text: str, width: int, font: ImageFont.ImageFont | ImageFont.FreeTypeFont) -> str:
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "…") > width:
        text = text[:-1]
    return text + "…"

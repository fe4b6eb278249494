"""The memory at the end of a run: rows of each class, and a few of the images as thumbnails."""

import base64
import io
from collections import Counter
from dataclasses import dataclass

import numpy as np

from ..compare.tables import Table, Value
from . import style
from .canvas import Canvas, Figure
from .gather import Memory, Run, VariantRuns
from .lines import borders

NAMED = 24  # classes up to which each has its name
EACH = 8  # images of a class, at most
ALL = 32  # images, at most
SIDE = 24  # pixels, at most


@dataclass(frozen=True)
class Sprite:
    """Thumbnails in one PNG, class by class."""

    title: str
    alt: str
    source: str  # data: URL
    width: int
    height: int
    variant: str  # that it comes and goes with


def first_memory(variant: VariantRuns) -> tuple[Run, Memory] | None:
    """The first seed that has a memory, and its rows."""
    return next(((run, rows) for run in variant.runs if (rows := run.memory())), None)


def composition(variant: VariantRuns, run: Run, memory: Memory) -> Figure:
    """Rows of each class."""
    labels, _ = memory
    counts = Counter(labels)
    order = [c for task in run.tasks for c in task] or sorted(counts)
    order += sorted(set(counts) - set(order))
    task_of = {c: t + 1 for t, task in enumerate(run.tasks) for c in task}
    names = {c: run.class_name(c) for c in order}
    rows: list[list[Value]] = [[task_of.get(c), c, names[c], counts[c]] for c in order]

    def draw() -> Canvas:
        canvas = Canvas("third", 2.6)
        axes = canvas.panels()[0]
        heights = [counts[c] for c in order]
        ends, top = np.cumsum([len(task) for task in run.tasks]).tolist(), max(heights) or 1
        if len(order) <= NAMED:
            axes.bar(range(len(order)), heights, color=variant.look.colour, width=0.8)
            short = [style.clean(names[c], 12) for c in order]
            axes.set_xticks(range(len(order)), short, rotation=90)
            for i, c in enumerate(order):
                said = f"{names[c]} (task {task_of.get(c, '-')}): {counts[c]} rows"
                canvas.spot(axes, i, top / 2, said, (1, top))
        else:  # one shape for all, and a spot for each task
            edges = [i - 0.5 for i in range(len(order) + 1)]
            axes.stairs(heights, edges, color=variant.look.colour, fill=True)
            axes.set_xticks([])
            axes.set_xlabel("class, by task")
            for task, end in enumerate(ends):
                size = len(run.tasks[task])
                said = f"task {task + 1}: {sum(heights[end - size : end])} rows of {size} classes"
                canvas.spot(axes, end - size / 2 - 0.5, top / 2, said, (size, top))
        axes.grid(visible=False, axis="x")
        borders(axes, [end - 0.5 for end in ends[:-1]])
        axes.set_ylabel("rows")
        axes.yaxis.get_major_locator().set_params(integer=True)
        return canvas

    per_task = Counter(task_of.get(c) for c in labels)
    tasks = ", ".join(f"{t}: {n}" for t, n in sorted(per_task.items(), key=lambda p: p[0] or 0))
    caption = f"{len(labels)} rows at the end of seed {run.seed}; by task {tasks}."
    data = Table(["task", "class", "name", "rows"], rows)
    return Figure(
        variant.named("memory"), variant.title, caption, draw, data, variants=[variant.look.variant]
    )


def sprite(variant: VariantRuns, run: Run, memory: Memory) -> Sprite | None:
    """A few images of every class, or None if they are no pictures."""
    from PIL import Image

    labels, images = map(np.asarray, memory)
    if images.ndim != 4 or images.shape[1] not in (1, 3) or min(images.shape[2:]) < 4:
        return None
    order = [c for task in run.tasks for c in task if (labels == c).any()][:ALL]
    if not order:
        return None
    each = max(1, min(EACH, ALL // len(order)))
    per_line = max(each, 8 // each * each)  # several classes in a line if each has few
    side = min(SIDE, max(images.shape[2:])) + 1  # with a border
    lines = -(-len(order) * each // per_line)
    sheet = Image.new("RGB", (per_line * side, lines * side), (127, 127, 127))
    for k, c in enumerate(order):
        for place, i in enumerate(np.flatnonzero(labels == c)[:each], k * each):
            pixels = images[i].transpose(1, 2, 0)
            picture = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
            picture = picture.convert("RGB").resize((side - 1, side - 1))
            sheet.paste(picture, (place % per_line * side, place // per_line * side))
    grey = images.shape[1] == 1
    out = io.BytesIO()
    (sheet.convert("L") if grey else sheet.quantize(64)).save(out, "PNG", optimize=True)
    names = ", ".join(run.classes[c] for c in order)
    return Sprite(
        title=f"{variant.label}: at most {each} of each class",
        alt=f"images in the memory, class by class: {names}",
        source="data:image/png;base64," + base64.b64encode(out.getvalue()).decode(),
        width=sheet.width,
        height=sheet.height,
        variant=variant.look.variant,
    )

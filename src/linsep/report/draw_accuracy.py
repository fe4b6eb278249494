"""Figures of what runs measured: accuracy over tasks, forgetting, matrices, confusion, losses, and
what is in the memory at the end."""

import base64
import io
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain, product
from typing import Any

import numpy as np

from ..compare import statistics
from ..compare.tables import Table, Value
from ..compare.variants import is_bound
from ..learning.metrics import PROTOCOLS
from ..settings.catalogue import ADDONS
from . import lines
from .canvas import BLUE, DIM, INK, Axes, Canvas, Figure, Room, Spot, clean
from .gather import Block, Matrix, Memory, Run, VariantRuns

NAMED = 24  # classes or tasks up to which every one is named
SMALL = 6  # tasks up to which two matrices fit into a third of the page
NUMBERED = 10  # tasks up to which every cell has its number in it


# --- over tasks ----------------------------------------------------------------------------------


def over_tasks(block: Block) -> Figure | None:
    """Mean accuracy on the tasks seen so far, after each task."""
    caption = "Mean over the tasks seen so far, after each task."
    if any(is_bound(variant.variant.method) for variant in block.variants):
        caption += " Joint training (JT) sees all data at once, so it is a single point."
    about = "accuracy-over-tasks", "Average accuracy on the tasks learned so far", caption
    return lines.lines_figure(
        block, about, _panels(block, averages),
        panel="protocol", x="tasks learned", y="average accuracy", unit=" %", digits=1,
    )  # fmt: skip


def forgetting(block: Block) -> Figure | None:
    """The values that FF is the mean of."""
    caption = (
        "Best accuracy on a task before the last one was learned, minus its accuracy at the end; "
        "final forgetting (FF) is the mean over these tasks. Below 0, a task improved in the end."
    )
    return lines.lines_figure(
        block, ("forgetting", "Forgetting of each task", caption), _panels(block, forgotten),
        panel="protocol", x="task", y="forgetting", unit=" %", digits=1, joined=False,
    )  # fmt: skip


def averages(matrix: Matrix) -> Iterator[tuple[float, float]]:
    for t, row in enumerate(matrix):
        known = [v for v in row[: t + 1] if v is not None]
        if len(known) == t + 1:
            yield t + 1, 100 * statistics.mean(known)


def forgotten(matrix: Matrix) -> Iterator[tuple[float, float]]:
    last = len(matrix) - 1
    for i in range(last):
        peaks = [v for row in matrix[i:last] if (v := row[i]) is not None]
        final = matrix[last][i]
        if peaks and final is not None:
            yield i + 1, 100 * (max(peaks) - final)


def _panels(
    block: Block, points: Callable[[Matrix], lines.Points]
) -> dict[str, list[lines.Series]]:
    """A line for each variant and protocol, of points that each seed's matrix gives."""

    def of(protocol: str) -> Callable[[VariantRuns], lines.Points]:
        return lambda variant: chain(*map(points, variant.matrices(protocol)))

    return {shown: lines.by_variant(block, of(protocol)) for protocol, shown in PROTOCOLS.items()}


# --- matrices ------------------------------------------------------------------------------------


def matrices(variant: VariantRuns) -> Figure | None:
    """Draw the accuracy matrices: Class-IL and Task-IL, after each task on each task."""
    caption = "Accuracy in %: row = after learning a task, column = on a task."
    caption += " Mean over seeds." if variant.averaged else ""
    found = {shown: variant.matrices(protocol) for protocol, shown in PROTOCOLS.items()}
    return heat_maps(variant, "accuracy-matrix", caption, found)


def heat_maps(
    variant: VariantRuns, kind: str, caption: str, found: dict[str, list[Matrix]]
) -> Figure | None:
    """Means over matrices of one size, a panel for each name."""
    means: dict[str, list[list[float | None]]] = {}
    rows: list[list[Value]] = []
    for panel, many in ((panel, many) for panel, many in found.items() if many):
        size = len(many[0])
        alike = [m for m in many if len(m) == size]
        means[panel] = [[None] * size for _ in range(size)]
        for t, i in product(range(size), repeat=2):
            if known := [100 * v for m in alike if (v := m[t][i]) is not None]:
                mean = means[panel][t][i] = statistics.mean(known)
                rows.append([panel, t + 1, i + 1, mean, statistics.std(known), len(known)])
    if not rows:
        return None
    room: Room = "third" if max(map(len, means.values())) <= SMALL else "half"

    def draw(canvas: Canvas) -> None:
        for axes, values in zip(canvas.panels(means), means.values(), strict=True):
            _heat(canvas, axes, values)

    data = Table(["panel", "after task", "on task", "accuracy %", "std", "n"], rows)
    height = 2.0 if room == "third" else 3.2
    return Figure(*variant.about(kind), caption, draw, data, room, height)


def _image(axes: Axes, values: np.ndarray) -> Any:
    """Percentages as a colour that gets stronger; 0 is the paper."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    blue = to_rgb(BLUE)
    axes.grid(visible=False)
    axes.spines[:].set_color(DIM)
    axes.spines[:].set_visible(True)
    strength = LinearSegmentedColormap.from_list("strength", [(*blue, 0.0), (*blue, 0.85)])
    return axes.imshow(values, vmin=0, vmax=100, cmap=strength)


def _heat(canvas: Canvas, axes: Axes, values: Sequence[Sequence[float | None]]) -> None:
    size = len(values)
    _image(axes, np.array(values, float))  # None becomes NaN
    ticks = range(0, size, 1 if size <= NAMED else 5)
    axes.set_xticks(ticks, [str(t + 1) for t in ticks])
    axes.set_yticks(ticks, [str(t + 1) for t in ticks])
    axes.set_xlabel("on task")
    axes.set_ylabel("after task")
    for t, i in product(range(size), repeat=2):
        if (value := values[t][i]) is None:
            continue
        said = f"after task {t + 1}, on task {i + 1}: {value:.1f} %"
        canvas.spots.append(Spot(axes, (i, t), said, (1, 1)))
        if size <= NUMBERED:
            axes.text(i, t, f"{value:.0f}", color=INK, ha="center", va="center")


def confusion(variant: VariantRuns) -> Figure | None:
    """Rows are true classes, columns predicted ones, summed over seeds."""
    runs = [run for run in variant.runs if run.results.get("confusion")]
    runs = [run for run in runs if run.classes == runs[0].classes]
    summed = np.sum([np.array(run.results["confusion"]) for run in runs], axis=0)
    if not np.any(summed):
        return None
    order, ends = _class_order(runs)
    counts = summed[np.ix_(order, order)]
    names = [f"{c} {clean(runs[0].classes[c], 40)}" for c in order]
    rows = [[name, *row] for name, row in zip(names, counts.tolist(), strict=True)]
    over = ", summed over seeds" if variant.averaged else ""
    ruled = "Lines are borders of tasks." if ends else "Seeds order the classes differently."
    caption = (
        f"Class-IL after the last task{over}: rows are true classes, columns predicted ones; "
        f"colours are shares of a row. {ruled}"
    )

    def draw(canvas: Canvas) -> None:
        (axes,) = canvas.panels()
        shares = 100 * counts / np.maximum(counts.sum(1, keepdims=True), 1)
        image = _image(axes, shares)
        _name_classes(axes, names, ends)
        bar = canvas.drawing.colorbar(image, ax=axes, shrink=0.7, label="% of the row")
        bar.outline.set_edgecolor(DIM)
        canvas.grids.append(axes)

    data = Table(["true class", *names], rows)
    return Figure(*variant.about("confusion"), caption, draw, data, "third", 3.1)


def _class_order(runs: Sequence[Run]) -> tuple[list[int], list[int]]:
    """Classes by task, and after how many of them tasks end; by number if seeds differ in it."""
    tasks = runs[0].tasks
    order = [c for task in tasks for c in task]
    if all(run.tasks == tasks for run in runs) and len(set(order)) == len(order) and order:
        rest = [c for c in range(len(runs[0].classes)) if c not in set(order)]
        return order + rest, list(np.cumsum([len(task) for task in tasks]))
    return list(range(len(runs[0].classes))), []


def _name_classes(axes: Axes, names: Sequence[str], ends: Sequence[int]) -> None:
    """Classes, or tasks if there are many, at both axes, and lines between tasks."""
    for end, line in product(ends[:-1], (axes.axhline, axes.axvline)):
        line(end - 0.5, color=DIM, linewidth=0.6)
    places, shown = list[float](), list[str]()
    if len(names) <= NAMED:
        places = list(range(len(names)))
        shown = [clean(name.partition(" ")[2] or name, 14) for name in names]
    elif ends:
        places = [(a + b - 1) / 2 for a, b in zip([0, *ends[:-1]], ends, strict=True)]
        shown = [f"task {t + 1}" for t in range(len(ends))]
    axes.set_xticks(places, shown, rotation=90)
    axes.set_yticks(places, shown)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")


# --- losses --------------------------------------------------------------------------------------

MOST_EPOCHS = 120  # that are drawn of one line
WORDS = {
    "ce": "cross-entropy", "bce": "binary cross-entropy", "ace": "cross-entropy (ACE)",
    "replay": "replayed", "lode": "LODE:",
} | {name: entry.title for name, entry in ADDONS.items()}  # fmt: skip


def in_words(term: str) -> str:
    """'replay_ce' as 'Replayed cross-entropy'."""
    words = " ".join(WORDS.get(part, part) for part in term.split("_"))
    return words[:1].upper() + words[1:]


def losses(block: Block) -> Figure | None:
    """A panel for each term, variants as lines, over all epochs of all tasks."""
    runs = [run for variant in block.variants for run in variant.runs]
    terms = dict.fromkeys(t for run in runs for event in run.epochs for t in event["losses"])
    drawn = {in_words(t): lines.by_variant(block, partial(_of_term, t), each=False) for t in terms}
    panels = {term: curves for term, curves in drawn.items() if curves}
    if not panels:
        return None
    ends = max((_task_ends(variant.runs[0]) for variant in block.variants), key=len)
    columns = 2 if len(panels) in (2, 4) else min(3, len(panels))

    def draw(canvas: Canvas) -> None:
        grid = canvas.panels(panels, columns, share="x")
        for axes, curves in zip(grid, panels.values(), strict=True):
            lines.plot(canvas, axes, curves, lines.worded("epoch {:g}".format, digits=4))
            lines.borders(axes, [end + 0.5 for end in ends[:-1]])
            axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
            axes.xaxis.get_major_locator().set_params(integer=True)
        for axes in grid[-columns:]:
            axes.set_xlabel("epoch, over all tasks")
            axes.tick_params(labelbottom=True)
        lines.legend(canvas, grid)

    caption = (
        "Each term before its weight, mean over the steps of an epoch. Dashed lines are borders of "
        f"tasks.{lines.spread_note(panels.values())}"
    )
    data = lines.table(panels, panel="term", x="epoch", y="loss")
    height = 2.3 * math.ceil(len(panels) / columns) + 0.6
    about = block.about("losses", "Loss terms over training")
    return Figure(*about, caption, draw, data, height=height)


def _of_term(term: str, variant: VariantRuns) -> lines.Points:
    """(number of the epoch, value) of all seeds; of many epochs only some."""
    every = [
        (number, event["losses"][term])
        for run in variant.runs
        for number, event in enumerate(run.epochs, 1)
        if term in event["losses"]
    ]
    thin = math.ceil(max((x for x, _ in every), default=0) / MOST_EPOCHS)
    return [(x, value) for x, value in every if (x - 1) % thin == 0]


def _task_ends(run: Run) -> list[int]:
    """After how many epochs each task was done."""
    return list(accumulate(Counter(event["task"] for event in run.epochs).values()))


# --- memory --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sprite:
    """Thumbnails in one PNG, class by class."""

    title: str
    alt: str
    source: str  # data: URL
    size: tuple[int, int]
    variant: str  # that it comes and goes with


def composition(variant: VariantRuns, run: Run, memory: Memory) -> Figure:
    """Stored samples of each class."""
    counts = Counter(memory.labels)
    task_of = {c: t + 1 for t, task in enumerate(run.tasks) for c in task}
    order = [*task_of, *sorted(counts.keys() - task_of.keys())]
    rows: list[list[Value]] = [[task_of.get(c), c, run.class_name(c), counts[c]] for c in order]

    def draw(canvas: Canvas) -> None:
        (axes,) = canvas.panels()
        heights, top = [counts[c] for c in order], max(counts.values())
        edges = [i - 0.5 for i in range(len(order) + 1)]
        axes.stairs(heights, edges, color=variant.look.colour, fill=True)
        named = [clean(run.class_name(c), 12) for c in order] if len(order) <= NAMED else []
        axes.set_xticks(range(len(named)), named, rotation=90)
        axes.set_xlabel("" if named else "class, by task")
        for i, c in enumerate(order if named else ()):
            said = f"{run.class_name(c)} (task {task_of.get(c, '-')}): {counts[c]} samples"
            canvas.spots.append(Spot(axes, (i, top / 2), said, (1, top)))
        axes.grid(visible=False, axis="x")
        ends = np.cumsum([len(task) for task in run.tasks]).tolist()
        lines.borders(axes, [end - 0.5 for end in ends[:-1]])
        axes.set_ylabel("stored samples")
        axes.yaxis.get_major_locator().set_params(integer=True)

    per_task = Counter(task_of.get(c) for c in memory.labels)
    tasks = ", ".join(f"{t}: {n}" for t, n in sorted(per_task.items(), key=lambda p: p[0] or 0))
    caption = f"{len(memory.labels)} samples at the end of seed {run.seed}; by task {tasks}."
    data = Table(["task", "class", "name", "samples"], rows)
    return Figure(*variant.about("memory"), caption, draw, data, "third", 2.4)


def sprite(variant: VariantRuns, run: Run, memory: Memory) -> Sprite | None:
    """A few images of every class, or None if they are no pictures."""
    from PIL import Image

    labels, images = memory.pictured, memory.images
    order = [c for task in run.tasks for c in task if (labels == c).any()]
    pictures = images.dtype == np.uint8 and images.ndim == 4 and images.shape[1] in (1, 3)
    if not pictures or min(images.shape[2:]) < 4 or not order:
        return None
    each = max(Counter(labels.tolist()).values())
    per_line = max(each, 8 // each * each)  # several classes in a line if each has few
    side = min(24, max(images.shape[2:])) + 1  # pixels, with a border
    down = -(-len(order) * each // per_line)
    sheet = Image.new("RGB", (per_line * side, down * side), (127, 127, 127))
    for k, c in enumerate(order):
        for place, i in enumerate(np.flatnonzero(labels == c), k * each):
            pixels = images[i].transpose(1, 2, 0)
            picture = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
            picture = picture.convert("RGB").resize((side - 1, side - 1))
            sheet.paste(picture, (place % per_line * side, place // per_line * side))
    out = io.BytesIO()
    grey = images.shape[1] == 1
    (sheet.convert("L") if grey else sheet.quantize(64)).save(out, "PNG", optimize=True)
    alt = f"images in the memory, class by class: {', '.join(run.classes[c] for c in order)}"
    source = "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()
    title = f"{variant.label}: at most {each} of each class"
    return Sprite(title, alt, source, sheet.size, variant.look.variant)

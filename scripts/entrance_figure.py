"""The picture at the entrance: what remains of earlier classes, without and with BFP, as an SVG.

Means over the seeds of the main part of the evidence's protocol.
"""

import json
from collections.abc import Iterator, Sequence
from html import escape
from statistics import fmean

from step_figure import SHOWN, STYLE, WIDTH

from linsep.compare.variants import title
from linsep.storage.store import Record
from studies.evidence import Runs

PAIRS = (("er", "er+bfp"), ("derpp", "derpp+bfp"))
HEIGHT, TOP, FOOT = 268, 86, 222  # of all, of 80 % and of 0 %
LEFT, PANEL, APART = 38, 148, 190  # the first panel, its width, to the next one
HIGHEST = 80
Curve = list[float]


def draw(records: Sequence[Record]) -> str:
    curves = {method: remaining(Runs(records), method) for pair in PAIRS for method in pair}
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{SHOWN}" height="{HEIGHT * SHOWN // WIDTH}" role="img">'
    )
    card = f'<rect class="c" x=".75" y=".75" width="{WIDTH - 1.5}" height="{HEIGHT - 1.5}" rx="8"/>'
    parts = [head, f"<title>{escape(words(curves))}</title>", f"<style>{STYLE}</style>", card]
    parts.append(_text(14, 27, "What remains of the classes learned before", "b"))
    parts.append(_text(14, 43, "accuracy in %, Split CIFAR-10, memory of 200 images", "s"))
    for number, pair in enumerate(PAIRS):
        parts += _panel(LEFT + APART * number, pair, [curves[method] for method in pair])
    parts.append(_text(WIDTH / 2, HEIGHT - 10, "classes learned so far", "s m"))
    return "\n".join([*parts, "</svg>\n"])


def words(curves: dict[str, Curve]) -> str:
    """The picture in a sentence."""
    said = [f"{curve[-1]:.0f} % with {title(method)}" for method, curve in curves.items()]
    return f"Accuracy on the classes of earlier tasks, after ten classes: {', '.join(said)}"


def remaining(runs: Runs, method: str) -> Curve:
    """Mean accuracy on the classes of all earlier tasks, after each task from the second on."""
    found = [runs.run(s) for s in runs.parts["main"] if s["method"] == method]
    matrices = [_matrix(record) for record in found if record is not None]
    return [
        fmean(100 * fmean(matrix[task][:task]) for matrix in matrices)
        for task in range(1, len(matrices[0]))
    ]


def _matrix(record: Record) -> list[list[float]]:
    content = json.loads((record.folder / "results.json").read_text("utf-8"))
    matrix: list[list[float]] = content["matrices"]["class_il"]
    return matrix


def _panel(left: float, pair: Sequence[str], curves: Sequence[Curve]) -> Iterator[str]:
    for percent in (0, 40, HIGHEST):
        yield f'<path class="c" d="M{left} {_y(percent):g}h{PANEL}"/>'
        yield f'<text x="{left - 6}" y="{_y(percent) + 4:g}" class="s e">{percent}</text>'
    step = (PANEL - 36) / (len(curves[0]) - 1)
    xs = [left + 8 + step * task for task in range(len(curves[0]))]
    for task, x in enumerate(xs):
        yield _text(x, FOOT + 17, str(2 * task + 4), "s m")
    for number, (method, curve) in enumerate(zip(pair, curves, strict=True)):
        new = " h" * number
        name = title(method).removeprefix(f"{title(pair[0])} ")  # 'ER', and '+ BFP' beside it
        yield _text(left + 56 * number, TOP - 12, name, f"b{new}")
        line = "L".join(f"{x:g} {_y(value):.1f}" for x, value in zip(xs, curve, strict=True))
        yield f'<path class="w{new}" d="M{line}"/>'
        for x, value in zip(xs, curve, strict=True):
            yield f'<circle class="d{new}" cx="{x:g}" cy="{_y(value):.1f}" r="3.5"/>'
        lower = 9 if not number else 0
        yield _text(xs[-1] + 8, _y(curve[-1]) + 2 + lower, f"{curve[-1]:.0f}", f"b{new}")


def _y(percent: float) -> float:
    return FOOT - (FOOT - TOP) * percent / HIGHEST


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(text)}</text>'

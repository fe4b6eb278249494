"""Draw how accuracy falls as tasks come: mean over seeds, a band of one standard deviation.

    python scripts/draw_results.py RUNS OUT.svg

RUNS is a folder of finished runs on one scenario; needs matplotlib.
"""

import sys
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import matplotlib

from linsep.results import read_results

matplotlib.use("svg")
import matplotlib.pyplot as plt

# Okabe and Ito's colours, which colour-blind readers can tell apart.
COLOURS = ("#999999", "#000000", "#E69F00", "#56B4E9", "#009E73", "#D55E00", "#CC79A7")
LABELS = {"ft": "FT", "jt": "JT, all data at once", "er": "ER", "derpp": "DER++"}


def curve(results: dict[str, Any]) -> list[float | None]:
    """Mean Class-IL accuracy on the tasks seen so far, after each task."""
    rows = results["matrices"]["class_il"]
    seen = [row[: t + 1] for t, row in enumerate(rows)]
    return [None if None in row else 100 * mean(row) for row in seen]


def known(curves: list[list[float | None]], task: int) -> list[float]:
    return [value for c in curves if (value := c[task]) is not None]


def draw(runs: Path, out: Path) -> None:
    found = [read_results(path.parent) for path in sorted(runs.glob("*/results.json"))]
    order = ("ft", "jt", "er", "derpp")
    names = {r["method"] for r in found}
    methods = [m for m in order if m in names] + sorted(names - set(order))
    figure, axes = plt.subplots(figsize=(6.4, 3.4))
    for method, colour in zip(methods, COLOURS, strict=False):
        curves = [curve(r) for r in found if r["method"] == method]
        tasks = [t for t in range(len(curves[0])) if known(curves, t)]
        values = [known(curves, t) for t in tasks]
        middle = [mean(v) for v in values]
        spread = [stdev(v) if len(v) > 1 else 0.0 for v in values]
        places = [t + 1 for t in tasks]
        label = LABELS.get(method, method.replace("derpp", "DER++").replace("+bfp", " w/ BFP"))
        axes.plot(places, middle, marker="o", markersize=4, color=colour, label=label)
        low = [m - s for m, s in zip(middle, spread, strict=True)]
        high = [m + s for m, s in zip(middle, spread, strict=True)]
        axes.fill_between(places, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.set(xlabel="tasks learned", ylabel="Class-IL accuracy, %", ylim=(0, 102))
    axes.set_xticks(range(1, len(found[0]["groups"]) + 1))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="lower left")
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None})


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    draw(Path(sys.argv[1]), Path(sys.argv[2]))

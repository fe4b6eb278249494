"""What notebooks display: accuracy over tasks drawn with matplotlib, tables and pictures as HTML.

Everything in the HTML is escaped, and nothing in it is executed.
"""

from base64 import b64encode
from collections.abc import Callable, Sequence
from html import escape
from importlib.util import find_spec
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..compare.tables import Table
from ..errors import ConfigError, unknown
from ..learning.metrics import PROTOCOLS
from ..optional import needed

if TYPE_CHECKING:
    from ..report.gather import LoadedRuns

INCHES = (6.4, 3.6)


def block(title: str, tables: Sequence[Table], notes: Sequence[str] = (), image: str = "") -> str:
    """A title, tables one below another, a picture, and notes in small type."""
    parts = [f"<p><b>{escape(title)}</b></p>"] if title else []
    parts += [table.to_html() for table in tables]
    parts += [image]
    parts += [f"<p><small>{escape(note)}</small></p>" for note in notes]
    return f"<div>{''.join(parts)}</div>"


def picture(draw: Callable[[Any], object], alternative: str) -> str:
    """The lines that `draw` puts into matplotlib's axes, as an <img>; nothing without any."""
    if find_spec("matplotlib") is None:
        return ""
    from matplotlib.figure import Figure  # not pyplot's, which a notebook would show once more

    figure, content = Figure(figsize=INCHES, layout="constrained"), BytesIO()
    axes = figure.subplots()
    draw(axes)
    if not axes.lines:
        return ""
    figure.savefig(content, format="png", dpi=100)
    data = b64encode(content.getvalue()).decode("ascii")
    return f'<p><img alt="{escape(alternative)}" src="data:image/png;base64,{data}"></p>'


def framed(page: str) -> str:
    """A page within the notebook: its scripts work, and cannot reach the notebook."""
    content = escape(page).replace("\n", "&#10;")
    return (
        '<iframe title="report" sandbox="allow-scripts allow-downloads" loading="lazy" '
        f'style="width: 100%; height: 40em; border: 0" srcdoc="{content}"></iframe>'
    )


def one_run(matrix: NDArray[np.float64], title: str, axes: Any = None) -> Any:
    """The accuracy on each task after each task, and the average over the tasks so far."""
    axes = _axes(axes)
    moments = np.arange(1, len(matrix) + 1)
    for task, column in enumerate(100 * matrix.T):
        known = ~np.isnan(column)
        axes.plot(moments[known], column[known], marker=".", alpha=0.5, label=f"task {task + 1}")
    means = [(t + 1, 100 * row[: t + 1].mean()) for t, row in enumerate(matrix)]
    seen = [(t, mean) for t, mean in means if not np.isnan(mean)]
    axes.plot(*zip(*seen, strict=True), color="black", linewidth=2, marker="o", label="average")
    return _labelled(axes, title)


def variants(loaded: "LoadedRuns", protocol: str, axes: Any = None) -> Any:
    """Each method's average accuracy over the tasks so far; the band is one std over seeds."""
    from ..report.draw_accuracy import averages
    from ..report.lines import series

    if protocol not in PROTOCOLS:
        raise ConfigError(unknown("protocol", protocol, PROTOCOLS))
    axes = _axes(axes)
    for variant in loaded.variants:
        found = (point for matrix in variant.matrices(protocol) for point in averages(matrix))
        line = series(variant.title, variant.look, found)
        if line is None:
            continue
        x, mean, std = np.array([(p.x, p.mean, p.std or 0.0) for p in line.points]).T
        look = {
            "color": variant.look.colour,
            "marker": variant.look.marker,
            "linestyle": variant.look.dash,
        }
        axes.plot(x, mean, label=variant.title, **look)
        if std.any():
            axes.fill_between(x, mean - std, mean + std, color=variant.look.colour, alpha=0.15)
    return _labelled(axes, f"{loaded.scenarios}, {PROTOCOLS[protocol]}")


def _axes(axes: Any) -> Any:
    if axes is not None:
        return axes
    return needed("matplotlib.pyplot", "plot").subplots(layout="constrained")[1]


def _labelled(axes: Any, title: str) -> Any:
    axes.set_title(title)
    axes.set_xlabel("tasks learned")
    axes.set_ylabel("accuracy, %")
    axes.xaxis.get_major_locator().set_params(integer=True)
    if axes.lines:
        axes.legend()
    return axes

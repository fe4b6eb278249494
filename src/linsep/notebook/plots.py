"""Accuracy over tasks as lines, drawn with matplotlib into axes of the user's or new ones.

Knows accuracy matrices and a report's arms. Knows no files.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError, unknown
from ..learning.metrics import SETTINGS
from ..optional import needed
from ..report.draw_accuracy import averages
from ..report.draw_lines import series
from ..report.gather import Gathered


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


def arms(gathered: Gathered, setting: str, axes: Any = None) -> Any:
    """Each method's average accuracy over the tasks so far; the band is one std over seeds."""
    if setting not in SETTINGS:
        raise ConfigError(unknown("setting", setting, SETTINGS))
    axes = _axes(axes)
    for arm in gathered.arms:
        found = (point for matrix in arm.matrices(setting) for point in averages(matrix))
        line = series(arm.title, arm.look, found)
        if line is None:
            continue
        x, mean, std = (
            np.array(column)
            for column in zip(*((p.x, p.mean, p.std or 0.0) for p in line.points), strict=True)
        )
        look = {"color": arm.look.colour, "marker": arm.look.marker, "linestyle": arm.look.dash}
        axes.plot(x, mean, label=arm.title, **look)
        if std.any():
            axes.fill_between(x, mean - std, mean + std, color=arm.look.colour, alpha=0.15)
    return _labelled(axes, f"{gathered.scenarios}, {SETTINGS[setting]}")


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

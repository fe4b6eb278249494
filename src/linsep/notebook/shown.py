"""The HTML that a notebook displays: tables and pictures, everything escaped, nothing executed.

Knows tables, matplotlib's figures and HTML. Knows no run.
"""

from base64 import b64encode
from collections.abc import Callable, Sequence
from html import escape
from importlib.util import find_spec
from io import BytesIO
from typing import Any

from ..compare.tables import Table

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

"""The HTML that a notebook displays for runs and comparisons: plain tables, everything escaped.

Knows tables and HTML. Knows no run.
"""

from collections.abc import Sequence
from html import escape

from ..compare.tables import Table


def block(title: str, tables: Sequence[Table], notes: Sequence[str] = ()) -> str:
    """A title, tables one below another, and notes in small type."""
    parts = [f"<p><b>{escape(title)}</b></p>"] if title else []
    parts += [table.to_html() for table in tables]
    parts += [f"<p><small>{escape(note)}</small></p>" for note in notes]
    return f"<div>{''.join(parts)}</div>"

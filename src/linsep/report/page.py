"""From sections to one HTML page that needs nothing else: style, script, figures and data inside.

Text reaches the page through jinja2, which escapes it; figures' SVG and tables' HTML escape theirs.
A Content-Security-Policy lets the browser load nothing from anywhere.

Knows HTML. Knows nothing of runs.
"""

import base64
import json
import zlib
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files

from .. import __version__
from ..optional import needed
from .canvas import Figure, swatch
from .gather import Gathered
from .sections import sections
from .style import clean
from .words import lead


def page(gathered: Gathered) -> str:
    """The report of these runs; the same runs give the same bytes."""
    needed("matplotlib", "a report")
    jinja2 = needed("jinja2", "a report")
    made = sections(gathered)
    script = _text("report.js")
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    template = environment.from_string(_text("template.html.j2"))
    safe = jinja2.utils.markupsafe.Markup
    data = {figure.name: figure.data.to_csv() for s in made for figure in s.figures}
    whole = template.render(
        title=title(gathered),
        version=__version__,
        lead=lead(gathered),
        sections=made,
        legend=gathered.legend,
        swatch=lambda look: safe(swatch(look)),
        style=safe(_text("report.css")),
        script=safe(script),
        script_hash=_hash(script),
        data=packed(data),
        svg=lambda figure: safe(figure.svg().replace(' xmlns="http://www.w3.org/2000/svg"', "", 1)),
        table=lambda shown: safe(shown.table.to_html(marked=shown.marked)),
    )
    return str(whole)


def figures(gathered: Gathered) -> Sequence[Figure]:
    """Every figure of the page."""
    needed("matplotlib", "a report")
    return [figure for section in sections(gathered) for figure in section.figures]


def title(gathered: Gathered) -> str:
    methods = list(dict.fromkeys(arm.label for arm in gathered.arms))
    shown = ", ".join(methods[:5]) + (f" and {len(methods) - 5} more" if len(methods) > 5 else "")
    return clean(f"{gathered.scenarios}: {shown}", 160)


def packed(data: dict[str, str]) -> str:
    """Texts by name, deflated, in letters that mean nothing to HTML; a third of their size."""
    text = json.dumps(data, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _hash(script: str) -> str:
    """As a Content-Security-Policy names the one script that may run."""
    return "sha256-" + base64.b64encode(sha256(script.encode()).digest()).decode()


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")

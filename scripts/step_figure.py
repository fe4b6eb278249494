"""One training step of a method as a small SVG: batches run down, losses branch off to the right.

Written without a library, so that the same facts give the same bytes. The colours follow the
reader's light or dark mode. Knows facts (watched_step.py). Knows no method.
"""

from collections.abc import Iterator, Sequence
from html import escape
from textwrap import wrap

from watched_step import CAPACITY, Facts, Kept, Lane, Loss, Panel

WIDTH, SHOWN = 400, 480  # units of the drawing, pixels on a wide page
LEFT, LANE, GAP = 14, 54, 10  # the margin, the width of a lane, before the labels
LINE, SMALL = 15, 13.5  # from one line of text to the next
RIGHT, DOWN = "m-4 -4l4 4l-4 4", "m-4 -4l4 4l4 -4"  # heads of arrows
BAR = 20  # the height of a network
LETTER = {"b": 7.2, "s": 5.7}  # widths of bold and small text, rather too large: fonts differ
STYLE = """
svg{--ink:#1f2430;--soft:#5b6270;--card:#fff;--edge:#d5d9e2;--net:#3f51b5;--old:#9aa1b1;--new:#c2410c}
@media(prefers-color-scheme:dark){svg{--ink:#e7e9ef;--soft:#a9b0c0;--card:#1b1d27;--edge:#3d4252;
--net:#8c9eff;--old:#767d8f;--new:#ff9d5c}}
text{font:13px Arial,Helvetica,"DejaVu Sans Condensed",sans-serif;fill:var(--ink)}
.b{font-weight:bold}.s{font-size:11.5px;fill:var(--soft)}.m{text-anchor:middle}.e{text-anchor:end}.h{fill:var(--new)}
path,rect{fill:none;stroke:var(--soft);stroke-width:1.5}.c{fill:var(--card);stroke:var(--edge)}
.n{fill:var(--net);stroke:none}.o{fill:var(--old);stroke:none}.d{fill:var(--soft);stroke:none}
path.h{fill:none;stroke:var(--new)}.w{stroke-width:2.5}.d.h,.o.h{fill:var(--new);stroke:none}
"""


def draw(facts: Facts, plain: Facts | None = None) -> str:
    """The figure; what the method does beyond a plainer one is highlighted."""
    drawing = _Drawing(facts, plain)
    drawing.write(f"One training step of {facts.title}", "b")
    when = ["from the second task on"] * facts.later
    drawing.write("; ".join([*when, "numbers are defaults"]), "s")
    if plain is not None:
        added = facts.method.removeprefix(plain.method)
        drawing.write(f"highlighted: what {added} changes", "s", new=True)
    for number, panel in enumerate(facts.panels):
        drawing.panel(panel, later=number > 0)
    drawing.heading("Prediction", new=plain is not None and facts.predicts != plain.predicts)
    drawing.write(" ".join(facts.predicts), "s")
    height = round(drawing.y + 12)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{SHOWN}" height="{round(height * SHOWN / WIDTH)}" role="img">'
    )
    named = f"<title>{escape(short(facts))}</title><desc>{escape(long(facts))}</desc>"
    card = f'<rect class="c" x=".75" y=".75" width="{WIDTH - 1.5}" height="{height - 1.5}" rx="8"/>'
    return "\n".join([head, named, f"<style>{STYLE}</style>", card, *drawing.parts, "</svg>\n"])


# --- in words ------------------------------------------------------------------------------------


def short(facts: Facts) -> str:
    """The main stage in a sentence."""
    main = facts.panels[0]
    said = f"One training step of {facts.title}: {_batches(main, main.lanes)} through the network"
    if old := [lane for lane in main.lanes if lane.frozen]:
        said += f", {_batches(main, old)} also through the previous one"
    return f"{said}; loss {' + '.join(map(_weighted_term, main.losses))}"


def long(facts: Facts) -> str:
    """All of the figure in sentences."""
    said = [f"The current-task batches come from {facts.data}."]
    if (kept := facts.memory) is not None:
        said.append(f"The memory {_stores(kept)} {kept.filled}.")
    for panel in facts.panels:
        said.append(f"Stage {panel.name}: {' '.join(panel.begins)}")
        for lane in panel.lanes:
            what = "The batch" if lane.draw is None else f"A replay batch for {lane.draw}"
            nets = "the network and the previous one" if lane.frozen else "the network"
            said.append(f"{what} ({', '.join(lane.carries)}) passes through {nets}.")
        said += [f"{_weighted_term(loss)}: {', '.join(_details(loss))}." for loss in panel.losses]
        said.append(panel.update)
    return " ".join([*said, "Prediction:", *facts.predicts])


def _batches(panel: Panel, lanes: Sequence[Lane]) -> str:
    draws = sum(lane.draw is not None for lane in lanes)
    first = _source(panel) if len(lanes) > draws else ""
    counted = "" if not draws else "a replay batch" if draws == 1 else f"{draws} replay batches"
    return " and ".join(filter(None, [first, counted]))


def _source(panel: Panel) -> str:
    return {
        frozenset({"stream"}): "the current-task batch",
        frozenset({"memory"}): "stored samples",
    }.get(panel.sources, "new and stored samples")  # fmt: skip


def _stores(kept: Kept) -> str:
    return f"stores {CAPACITY} samples ({', '.join(kept.columns)}), policy {kept.policy},"


def _weighted_term(loss: Loss) -> str:
    return f"{loss.weight:g} × {loss.name}" if loss.weight != 1 else loss.name


def _details(loss: Loss) -> Iterator[str]:
    words = dict.fromkeys(word for read in loss.reads.values() for word in read)
    if words:
        yield "from " + ", ".join(words)
    yield from loss.notes


# --- in lines ------------------------------------------------------------------------------------


class _Drawing:
    """What has been drawn so far, and how far down."""

    def __init__(self, facts: Facts, plain: Facts | None) -> None:
        self.facts, self.parts, self.y = facts, list[str](), 12.0
        base = None if plain is None else plain.panels[0]
        self._losses = None if base is None else {loss.name for loss in base.losses}
        self._frozen = base is not None and not any(lane.frozen for lane in base.lanes)

    def write(self, text: str, kind: str, x: float = LEFT, new: bool = False) -> None:
        """A paragraph from x to the right edge, below all that was drawn."""
        for line in wrap(text, int((WIDTH - x - LEFT / 2) / LETTER[kind])):
            self.y += SMALL if kind == "s" else LINE
            self._text(x, self.y, line, kind + " h" * new)

    def heading(self, text: str, new: bool = False) -> None:
        self.y += 9
        self.write(text, "b", new=new)

    def panel(self, panel: Panel, *, later: bool) -> None:
        if later:
            times = f", {panel.epochs} epochs" if panel.epochs is not None else ""
            self.y += 10
            self.parts.append(f'<path class="c" d="M{LEFT} {self.y:g}H{WIDTH - LEFT}"/>')
            self.heading(f"Then the stage {panel.name!r}{times}")
        elif panel.epochs is not None:
            self.write(f"{panel.epochs} epochs, whatever the run's setting", "s")
        for said in panel.begins:
            self.write(said, "s")
        self.y += 12
        self._sources(panel, memory=self.facts.memory if not later else None)
        self._lanes(panel)
        self.heading("Update")
        self.write(panel.update, "s")

    def _sources(self, panel: Panel, memory: Kept | None) -> None:
        """The task's data and the memory, and which of them fills the batch."""
        top, right = self.y, LEFT + LANE - 4
        if memory is None:
            text = {"the current-task batch": self.facts.data}.get(_source(panel), _source(panel))
            self._text(LEFT, top + 8, f"from {text}", "s")
            self.y = top + 16
            return
        box = right + 24
        x = box + 10
        self.y += 4
        self.write("memory", "b", x)
        self.write(f"{_stores(memory)} {memory.filled}", "s", x)
        self.y += 9
        high = self.y - top
        for left, width in ((LEFT, right - LEFT), (box, WIDTH - LEFT - box)):
            self._box(left, top, width, high)
        self._text(_middle(0), top + high / 2 - 3, "current", "b m")
        self._text(_middle(0), top + high / 2 + 11, "task", "b m")
        self._arrow(f"M{right} {top + high / 2:g}H{box - 3}", RIGHT)
        foot = self.y + 14
        apart = 8 * (len(panel.sources) - 1)  # where two arrows lead to one batch
        if "memory" in panel.sources:
            self._arrow(f"M{x + 6} {self.y:g}v7H{_middle(0) + apart:g}V{foot:g}", DOWN)
        if "stream" in panel.sources:
            self._arrow(f"M{_middle(0) - apart:g} {self.y:g}V{foot:g}", DOWN)
        for number, lane in enumerate(panel.lanes[1:], start=1):
            self._arrow(f"M{_middle(number):g} {self.y:g}V{foot:g}", DOWN, self._is_new(lane))
        self.y = foot + 2

    def _lanes(self, panel: Panel) -> None:
        """Each batch from its head through the networks to the last loss that reads it."""
        head = self.y
        for number, lane in enumerate(panel.lanes):
            name = "batch" if lane.draw is None else "replay"
            lines = [(name, "b m"), (f"{lane.images} ×", "s m")]
            lines += [(what, "s m") for what in lane.carries]
            for row, (text, kind) in enumerate(lines, start=1):
                at = head + 14 * row
                self._text(_middle(number), at, text, kind + " h" * self._is_new(lane))
        top = head + 14 * (2 + max(len(lane.carries) for lane in panel.lanes)) + 6
        place, self.parts = self.parts, []  # what crosses the lanes is drawn over them
        self.y = top + 6
        ends = self._rows(panel)
        crossing, self.parts = self.parts, place
        for number, lane in enumerate(panel.lanes):
            line = f"M{_middle(number):g} {top:g}V{ends[number]:g}"
            self.parts.append(f'<path{_new(self._is_new(lane))} d="{line}"/>')
        self.parts += crossing

    def _rows(self, panel: Panel) -> list[float]:
        """The networks and the losses; where the last thing is that a lane leads to."""
        lanes, x = panel.lanes, LEFT + LANE * len(panel.lanes) + GAP
        ends = self._network("n", range(len(lanes)), "network", "learns: forward and back", x)
        old = [number for number, lane in enumerate(lanes) if lane.frozen]
        if old:
            self._network("o", old, "previous network", "frozen: forward only", x, self._frozen)
        found = [ends] * len(lanes)
        for loss in panel.losses:
            read = [number for number, lane in enumerate(lanes) if lane.draw in loss.reads]
            new = self._losses is not None and loss.name not in self._losses
            y = self.y + 11
            if read:
                line = f"M{_middle(read[0]):g} {y:g}H{x - 5}"
                self.parts.append(f'<path{_new(new)} d="{line}"/>')
            for number in read:
                found[number] = y
                dot = f'cx="{_middle(number):g}" cy="{y:g}" r="4"'
                self.parts.append(f'<circle class="d{" h" * new}" {dot}/>')
            self.write(_weighted_term(loss), "b", x, new)
            self.write("; ".join(_details(loss)), "s", x)
            self.y += 8
        return found

    def _network(
        self, kind: str, lanes: Sequence[int], name: str, what: str, x: float, new: bool = False
    ) -> float:
        y = self.y
        left, width = LEFT + LANE * lanes[0] + 3, LANE * len(lanes) - 6
        shape = f'x="{left}" y="{y:g}" width="{width}" height="{BAR}" rx="4"'
        self.parts.append(f'<rect class="{kind}{" h" * new}" {shape}/>')
        self.write(name, "b", x, new)
        self.write(what, "s", x)
        self.y = max(self.y, y + BAR) + 9
        return y + BAR

    def _is_new(self, lane: Lane) -> bool:
        return self._losses is not None and lane.draw is not None and lane.draw not in self._losses

    def _text(self, x: float, y: float, text: str, kind: str) -> None:
        style = f' class="{kind.strip()}"' if kind else ""
        self.parts.append(f'<text x="{x:g}" y="{y:g}"{style}>{escape(text)}</text>')

    def _box(self, x: float, y: float, width: float, height: float) -> None:
        shape = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"'
        self.parts.append(f"<rect {shape}/>")

    def _arrow(self, line: str, head: str, new: bool = False) -> None:
        self.parts.append(f'<path{_new(new)} d="{line}{head}"/>')


def _middle(lane: int) -> float:
    return LEFT + LANE * lane + (LANE - 4) / 2


def _new(new: bool) -> str:
    return ' class="h"' if new else ""

"""The study as commands: `python -m studies evidence`, `frontier`, `keep` and others."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from typer import Argument, Option

from linsep.compare.tables import show
from linsep.errors import ConfigError, LinsepError
from linsep.storage.files import reporting
from linsep.storage.store import Store

app = typer.Typer(no_args_is_help=True, help="What our runs say about the paper's claims.")
Runs = Annotated[Path, Option(help="The folder with the runs.")]
Trained = Annotated[Path, Argument(help="The folder with the trained runs.")]
Data = Annotated[str | None, Option(metavar="DIR", help="The folder with the images.")]
Page = Annotated[
    Path | None,
    Option("--output", "-o", metavar="FILE.md", help="Write a page, and its figures beside it."),
]


@app.command("evidence")
def evidence(
    runs: Runs = Path("runs"),
    output: Page = None,
    into: Annotated[
        Path | None,
        Option(metavar="README.md", help="Renew the table between the marks in this file."),
    ] = None,
) -> None:
    """Decide the paper's claims by the runs of the protocol in small.toml."""
    from . import equivalence, evidence, pages, pictures
    from .claims import EVERY_CLAIM
    from .features import analysed

    records = Store(runs).records()
    found, belonging = evidence.findings(EVERY_CLAIM, records), evidence.Runs(records)
    if output is not None:
        figures = output.parent / "figures"
        _write({
            output: pages.evidence_page(found, belonging, equivalence.quantities()),
            figures / "evidence.svg": pictures.evidence_picture(found),
            figures / "features.svg": pictures.features_picture(analysed(belonging)),
        })  # fmt: skip
    if into is not None:
        with reporting(f"cannot read {into}"):
            text = into.read_text(encoding="utf-8")
        try:
            _write({into: pages.replaced(text, pages.block(found))})
        except ConfigError as error:
            raise ConfigError(f"{into}: {error}") from None
    if output is None and into is None:
        show(pages.verdicts(found), Console())
        show(pages.tests(found), Console())


@app.command("frontier")
def frontier(runs: Runs = Path("runs"), output: Page = None) -> None:
    """Compare combinations of methods and add-ons by accuracy and cost."""
    from .frontier import frontier as find
    from .pages import frontier_page, frontier_table
    from .pictures import frontier_picture

    found = find(Store(runs).records())
    if output is None:
        show(frontier_table(found), Console())
        if found.missing:
            typer.echo(f"{len(found.missing)} combinations lack runs.")
    else:
        figure = output.parent / "figures" / "frontier.svg"
        _write({output: frontier_page(found), figure: frontier_picture(found)})


@app.command("pretrained")
def pretrained(runs: Runs = Path("runs"), output: Page = None) -> None:
    """Compare ways to keep learning from a pretrained network by the runs of pretrained.toml."""
    from .pretrained import SETS, page, picture, study, table

    found = study(Store(runs).records())
    if output is None:
        for data in SETS:
            show(table(found, data), Console())
    else:
        figure = output.parent / "figures" / "pretrained.svg"
        _write({output: page(found), figure: picture(found)})


@app.command("evaluate")
def evaluate(
    runs: Trained,
    parts: Annotated[list[str], Option("--part", help="A part of small.toml.")],
    data: Data = None,
) -> None:
    """Test trained networks in another way: another head, other BatchNorm statistics."""
    from .results import evaluate_parts

    for line in evaluate_parts(runs, parts, data):
        typer.echo(line)


@app.command("keep")
def keep(runs: Trained) -> None:
    """Copy finished runs of the protocols that keep theirs to results/, without weights."""
    from .results import keep_finished

    typer.echo(f"{keep_finished(runs)} runs added to results.")


@app.command("tune")
def tune(
    runs: Trained,
    output: Annotated[Path, Option("--output", "-o", metavar="FILE.csv", help="The record.")],
    data: Data = None,
) -> None:
    """Try options of +transport on held-out images, with the networks of tune_transport.toml."""
    import torch

    from .tune_transport import tune

    torch.set_num_threads(1)
    tune(runs, output, data, typer.echo)


@app.command("maps")
def maps(
    output: Annotated[Path, Option("--output", "-o", metavar="DIR", help="Where to write.")],
    data: Data = None,
) -> None:
    """Compute what the networks of pretrained.toml read: maps of frozen blocks, for every image."""
    import torch

    from .maps import SETS, write

    torch.set_num_threads(1)
    for name in SETS:
        for folder in write(name, data, output):
            typer.echo(f"Written to {folder}")


def _write(texts: Mapping[Path, str]) -> None:
    for path, text in texts.items():
        with reporting(f"cannot write {path}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        typer.echo(f"Written to {path}")


if __name__ == "__main__":
    try:
        app(prog_name="python -m studies")
    except LinsepError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)

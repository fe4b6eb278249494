"""`linsep bundle`, `add` and `verify`: send runs, take in those of others, and repeat one."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

from .analyse import Custom, Data
from .store import Runs, Where
from .terminal import open_console, say

DIFFERS = 1  # exit code


def bundle(
    run: Annotated[
        list[Path] | None, Argument(metavar="RUNS", help="Keys, names or folders of runs.")
    ] = None,
    where: Where = None,
    runs: Runs = Path("runs"),
    output: Annotated[Path, Option("--output", "-o", metavar="FILE", help="Where to.")] = Path(
        "runs.zip"
    ),
    weights: Annotated[bool, Option("--weights", help="Put the final weights in too.")] = False,
) -> None:
    """Put finished runs into one file for somebody else: configs, results, events, checksums.

    There are no images, paths or commands in it, and no weights unless you ask for them.

    [bold]Example[/bold]

      linsep bundle --where "scenario=split-cifar10 and memory=200" -o mine.zip
    """
    from ..storage.bundle import pack
    from ..storage.files import write
    from .flags import selected

    found = selected(run, where, runs, finished=True)
    content = pack([record.folder for record in found], weights=weights)
    write(output, content)
    count = f"{len(found)} run{'s' * (len(found) != 1)}"
    say(open_console(), f"{output} has {count}, {len(content) / 1000:.0f} kB.")


def add(
    file: Annotated[Path, Argument(metavar="BUNDLE", help="A file that `linsep bundle` wrote.")],
    runs: Runs = Path("runs"),
) -> None:
    """Put the runs of a bundle beside your own, where they are marked as made elsewhere.

    Every checksum is verified first. Nothing in a bundle is executed.

    [bold]Example[/bold]

      linsep add theirs.zip
    """
    from ..storage.bundle import add as take_in

    console, done = open_console(), take_in(file, runs)
    for one in done:
        if one.status == "differs":
            say(console, f"{one.name}: your own run of this name has other results; it stays.")
    added = sum(one.status == "added" for one in done)
    there = sum(one.status == "there already" for one in done)
    also = f" {there} with the same results were there already." if there else ""
    say(console, f"{added} of {len(done)} runs added to {runs}.{also}")


def verify(
    run: Annotated[Path, Argument(help="A run's key, name or folder.")],
    runs: Runs = Path("runs"),
    data: Data = None,
    custom: Custom = None,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Repeat a finished run and report whether it agrees bit for bit.

    Repeat the command to resume it after a stop. It exits with 1 if the runs differ.

    [bold]Example[/bold]

      linsep verify RUN --data DIR
    """
    from ..analysis.features import reopen
    from ..storage.folder import RunFolder, compared, difference, surroundings
    from ..storage.session import Session
    from ..storage.store import open_record
    from .run import watch

    record, console = open_record(run, runs), open_console()
    first = RunFolder(record.folder)
    prepared = reopen(record.folder, data=data, custom=custom or (), to_train=True)
    with Session(prepared, runs / ".verify", keep="end") as session:
        if not session.finished:
            watch(session, open_console(quiet), [])
    second = RunFolder(session.folder)
    found = difference(first, second)
    if found is None:
        shutil.rmtree(session.folder)
        with suppress(OSError):  # other repeated runs are in it
            session.folder.parent.rmdir()
        say(console, f"{record.name} repeats bit for bit: {', '.join(compared(first))}.")
        return
    say(console, f"{record.name} does not repeat: {found}.")
    for line in surroundings(first, second) or ["No difference between the machines is on record."]:
        say(console, f"  {line}")
    say(console, f"The repeated run is in {session.folder}.")
    raise Exit(DIFFERS)

"""Grids and searches: start workers, watch their reports, retry runs that crashed.

A run's folder is the only thing that outlives its grid, so a grid may be killed at any time and
started again, here or elsewhere, or beside another one. A search is a grid whose runs are proposed
by optuna: its trials are kept in a database beside the runs, so it may be killed at any time too.
The objective of a trial is the mean of a metric over its runs, which usually differ by seed. The
test images are never used: a share of the training images stands in for them.
"""

import math
import shutil
import time
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from itertools import count
from pathlib import Path
from statistics import fmean
from typing import Any

from ..errors import ConfigError, LinsepError, StateError
from ..learning.metrics import METRICS
from ..optional import needed
from ..settings.config import from_settings
from ..settings.layers import LABELS, flat, merged, nested, parsed
from ..settings.sections import Keep
from ..storage.folder import RunFolder
from ..storage.lease import release_dead
from ..storage.resumable import SAVE_EVERY
from .engines import Engine, Local, cpu_slots
from .plan import Cell, done, expand, plan
from .worker import TRIES, Board, Report

LOOK_HERE, LOOK_SHARED = 0.1, 1.0  # seconds between looks at the reports
RETRY = 3.0  # seconds before trying again for a run that another process is working on
VALIDATION = 0.1  # share of the training images, if the settings do not say


class Grid:
    """Iterate to carry it out: yields each cell whose state has changed.

    `stop()` asks the runs to save and end; the iteration then ends by itself. `add()` gives it more
    to do, even while it is being iterated.
    """

    def __init__(
        self,
        cells: list[Cell],
        runs: Path,
        save_every: float = SAVE_EVERY,
        keep: Keep | None = None,
        engine: Engine | None = None,
        workers: int = 1,
        log: Sequence[str] = (),
    ) -> None:
        """`log` are the loggers that each run is written to."""
        self.cells, self.runs = cells, runs
        self.saving = {"save_every": save_every, "keep": keep, "log": list(log)}
        self.engine = engine or Local(runs, cpu_slots(workers))
        self.stopping = False
        self._board = Board(runs.absolute() / ".grid" / uuid.uuid4().hex[:12])
        self._numbers = count()
        self._workers: dict[int, Cell] = {}  # and where each begins its walk
        self._retried = time.monotonic()

    def __iter__(self) -> Iterator[Cell]:
        try:
            while True:
                self._hire()
                if not self._open():
                    return
                time.sleep(LOOK_HERE if self.engine.here else LOOK_SHARED)
                yield from self._news()
        finally:
            self.engine.close()
            shutil.rmtree(self._board.folder, ignore_errors=True)
            with suppress(OSError):  # another grid may be under way
                self._board.folder.parent.rmdir()

    def add(self, cell: Cell) -> None:
        self.cells.append(cell)

    def stop(self) -> None:
        self.stopping = True
        self._board.stop()

    def _running(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.status == "running"]

    def _open(self) -> bool:
        """Return whether there is anything to wait for."""
        if not self.stopping:
            return any(cell.open for cell in self.cells)
        self._board.stop()  # a signal may have come while the plan was being posted
        if self._workers if self.engine.here else self._running():
            return True
        for cell in self.cells:
            if cell.open:
                cell.report = replace(cell.report, status="stopped")
        return False

    def _hire(self) -> None:
        """Start workers, as far as there are runs for them."""
        waiting = sorted(
            (c for c in self.cells if c.status == "waiting"), key=lambda c: c.report.tries
        )
        tries = TRIES - 1
        if self.engine.here:  # where a last try runs alone, in case memory ran out before
            if any(cell.report.tries == TRIES for cell in self._running()):
                return
            others = [cell for cell in waiting if cell.report.tries < tries]
            if others or self._workers:
                waiting, tries = others, tries - 1
            else:
                waiting = waiting[:1]
        wanted = min(self.engine.most, len(waiting) + len(self._running())) - len(self._workers)
        if not waiting or wanted <= 0 or self.stopping:
            return
        cells = {cell.name: cell.settings for cell in waiting}
        runs = str(self.runs.absolute())
        self._board.post({"runs": runs, **self.saving, "tries": tries, "cells": cells})
        hired = [next(self._numbers) for _ in range(wanted)]
        self._workers |= {number: waiting[number % len(waiting)] for number in hired}
        self.engine.start(self._board.folder, hired)

    def _news(self) -> Iterator[Cell]:
        """Read the reports; yield the cells that changed."""
        ended = self.engine.ended()  # first, so that the last report of a worker is not missed
        retry = time.monotonic() - self._retried >= RETRY
        if retry:
            self._retried = time.monotonic()
        for cell in [cell for cell in self.cells if cell.open]:
            before, cell.report = cell.report, self._settled(cell, ended, retry)
            if cell.report != before:
                yield cell
        for number, reason in ended.items():
            first = self._workers.pop(number)
            idle = all(cell.report.worker != number for cell in self.cells)
            if reason and idle and first.status == "waiting":  # it did not get as far as its run
                report = replace(first.report, tries=first.report.tries + 1).crashed(reason)
                self._board.write(first.name, report)
                first.report = report
                yield first

    def _settled(self, cell: Cell, ended: Mapping[int, str], retry: bool) -> Report:
        """What is reported of a run, and what follows from it."""
        report = told = self._board.read(cell.name)
        if report.status == "running" and report.worker in ended:
            report = report.crashed(ended[report.worker] or "its worker ended without a report")
        elif report.status == "elsewhere" and RunFolder(cell.folder).finished:
            report = replace(report, status="done")
        elif report.status == "elsewhere" and retry and release_dead(cell.folder):
            report = replace(report, status="waiting")
        if report != told:
            self._board.write(cell.name, report)
        return done(cell.folder, report) if report.status == "done" else report


# --- the search ----------------------------------------------------------------------------------


def read_range(name: str, given: Any) -> Any:
    """optuna's distribution for '1e-3..1 log' (or '1e-3..1:log'), '50..500', 'er,derpp', a list."""
    distributions = needed("optuna.distributions", "a search")
    wrong = f"search.{name}: should look like '0.001..1 log', '50..500' or ['er', 'derpp']"
    if isinstance(given, str) and ".." not in given:
        given = [parsed(value) for value in given.split(",")]
    if isinstance(given, list) and given and all(isinstance(v, str | int | float) for v in given):
        return distributions.CategoricalDistribution(given)
    if not isinstance(given, str):
        raise ConfigError(f"{wrong}, not {given!r}")
    text, _, scale = (part.strip() for part in given.strip().replace(":", " ").partition(" "))
    ends = [parsed(end) for end in text.split("..", 1)]
    numbers = all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends)
    if not numbers or not all(map(math.isfinite, ends)) or scale not in ("", "log"):
        raise ConfigError(f"{wrong}, not {given!r}")
    if not ends[0] < ends[1] or (scale and ends[0] <= 0):
        raise ConfigError(f"search.{name}: {given!r} is empty" + (" or not above 0" * bool(scale)))
    whole = all(isinstance(end, int) for end in ends)
    kind = distributions.IntDistribution if whole else distributions.FloatDistribution
    return kind(*ends, log=bool(scale))


def ranges(table: Mapping[str, Any]) -> dict[str, Any]:
    """The ranges of a [search] table."""
    trials = table.get("trials", 1) if isinstance(table, Mapping) else None
    if not isinstance(trials, int) or trials < 1:
        raise ConfigError("search: should be a table of ranges, with the number of trials")
    given = {name: v for name, v in flat(table).items() if name != "trials"}
    if not given:
        raise ConfigError("nothing to search: give --over-range 'lr=0.001..1 log'")
    for name in given:
        if name.startswith("scenario") or name == "seed":
            raise ConfigError(f"search.{name}: scenario and seed cannot be searched; use --over")
    return {name: read_range(name, value) for name, value in given.items()}


def on_validation(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with a validation split in place of the test images."""
    result = merged({"scenario": {"validation": VALIDATION}}, settings)
    asked = [flat(result["scenario"])["validation"]]
    asked += flat(result.get("over", {})).get("scenario.validation", [])
    if not all(isinstance(share, int | float) and share > 0 for share in asked):
        raise ConfigError(
            "scenario.validation: a search looks at the validation split only and not at the "
            "test images; give a share above 0, or leave it out"
        )
    return result


def check(settings: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Refuse settings, or ranges of settings, that no run can have, before there is any trial.

    Return those of the trial with the lowest values.
    """
    lowest = {name: getattr(one, "choices", None) or [one.low] for name, one in over.items()}
    layers = [nested(name, values[0]) for name, values in lowest.items()]
    trial = merged(settings, *layers)
    for combination in expand(trial):
        from_settings(combination)
    return trial


class Search:
    """Iterate to carry it out, as with a grid: yields each cell whose state has changed."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        over: Mapping[str, Any],
        grid: Grid,
        trials: int,
        at_once: int = 1,
        objective: tuple[str, str] = ("class_il", "faa"),
    ) -> None:
        """`grid` is an empty one; the `objective` is a protocol and a metric of a trial's runs."""
        self.settings, self.over, self.grid = on_validation(settings), over, grid
        self.trials, self.at_once, self.objective = trials, at_once, objective
        self.cells, self.stop = grid.cells, grid.stop
        self._lower = METRICS[objective[1]].better == "min"
        self._under_way: dict[int, list[Cell]] = {}  # the runs of a trial, by its number
        self._optuna = needed("optuna", "a search")
        check(self.settings, over)
        self.study = self._open_study()

    def __iter__(self) -> Iterator[Cell]:
        running = self._optuna.trial.TrialState.RUNNING
        for trial in self.study.get_trials(states=(running,)):  # of a search that was stopped
            self._begin(trial.number, trial.params)
        self._propose()
        for cell in self.grid:
            yield cell
            for number in list(self._under_way):
                self._judge(number)
            self._propose()

    def done(self) -> int:
        return sum(trial.state.is_finished() for trial in self.study.get_trials())

    def tried(self) -> list[tuple[int, dict[str, Any], float | None]]:
        """Every trial's number, values and objective, the best first; None: it has none."""
        sign = 1 if self._lower else -1
        found = [(t.number, rounded(t.params), t.value) for t in self.study.get_trials()]
        return sorted(found, key=lambda one: math.inf if one[2] is None else sign * one[2])

    def best(self) -> tuple[dict[str, Any], float] | None:
        """The values of the best trial and its objective; None if no trial has one."""
        return next(((params, v) for _, params, v in self.tried() if v is not None), None)

    def _open_study(self) -> Any:
        """Named by settings, ranges and objective, so that other ones make another study."""
        optuna, runs = self._optuna, self.grid.runs
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        settings = [(k, v) for k, v in flat(self.settings).items() if k not in LABELS]
        whole = repr((sorted(settings, key=str), self.over, self.objective))
        runs.mkdir(parents=True, exist_ok=True)
        study = optuna.create_study(
            storage=f"sqlite:///{(runs / 'search.db').absolute()}",
            study_name=f"search-{blake2b(whole.encode(), digest_size=5).hexdigest()}",
            direction="minimize" if self._lower else "maximize",
            load_if_exists=True,
        )
        # Continued, it must not propose again what it proposed first.
        seed = len(study.get_trials(deepcopy=False))
        study.sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        return study

    def _propose(self) -> None:
        while len(self._under_way) < self.at_once and not self.grid.stopping:
            if self.done() + len(self._under_way) >= self.trials:
                return
            trial = self.study.ask(self.over)
            self._begin(trial.number, trial.params)

    def _begin(self, number: int, proposed: Mapping[str, Any]) -> None:
        layers = [nested(name, value) for name, value in rounded(proposed).items()]
        settings = merged(self.settings, *layers)
        try:
            cells = plan(settings, self.grid.runs, here=self.grid.engine.here)
        except LinsepError:
            if number == 0:  # the settings themselves are wrong, most likely
                raise
            self._fail(number)
            return
        for cell in cells:
            share = from_settings(cell.settings).scenario.validation
            assert share > 0, "a search never looks at the test images"
            self.grid.add(cell)
        self._under_way[number] = cells
        self._judge(number)

    def _judge(self, number: int) -> None:
        """Tell optuna a trial's objective once its runs have ended; a failed run fails it."""
        statuses = {cell.status for cell in self._under_way[number]}
        if not statuses <= {"done", "failed"}:
            return
        cells = self._under_way.pop(number)
        if "failed" in statuses:
            self._fail(number)
            return
        protocol, metric = self.objective
        try:
            every = [RunFolder(cell.folder).results()["metrics"] for cell in cells]
            values = [metrics[protocol][metric] for metrics in every]
            if None in values:
                raise StateError(f"{protocol}.{metric} is undefined for a run of it")
            self.study.tell(number, fmean(values))
        except StateError as error:
            warnings.warn(f"trial {number} counts as failed: {error}", stacklevel=2)
            self._fail(number)

    def _fail(self, number: int) -> None:
        self.study.tell(number, state=self._optuna.trial.TrialState.FAIL)


def rounded(proposed: Mapping[str, Any]) -> dict[str, Any]:
    """Round to four digits: nobody wants to type more, and nothing depends on them."""
    return {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in proposed.items()}

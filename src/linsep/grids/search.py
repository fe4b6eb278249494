"""A search for the best values on a validation split: optuna proposes them, a grid runs them.

The objective of a trial is the mean of a metric over its runs, which usually differ by seed. The
test images are never used: a share of the training images stands in for them, and a search without
such a share is refused. Trials are kept in a database beside the runs, and a trial's runs
are runs like all others, so a search may be killed at any time and started again.
"""

import math
import warnings
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from statistics import fmean
from typing import Any

from ..errors import ConfigError, LinsepError, StateError
from ..learning.metrics import METRICS
from ..optional import needed
from ..settings.config import from_settings
from ..settings.layers import LABELS, flat, merged, nested, parsed
from ..storage.folder import RunFolder
from .grid import Grid
from .plan import Cell, expand, plan

VALIDATION = 0.1  # share of the training images, if the settings do not say
OWN = ("trials",)  # fields of a [search] table that are no ranges


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
    given = {name: v for name, v in flat(table).items() if name not in OWN}
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


def check(settings: Mapping[str, Any], over: Mapping[str, Any]) -> None:
    """Refuse settings, or ranges of settings, that no run can have, before there is any trial."""
    lowest = {name: getattr(one, "choices", None) or [one.low] for name, one in over.items()}
    layers = [nested(name, values[0]) for name, values in lowest.items()]
    for combination in expand(merged(settings, *layers)):
        from_settings(combination)


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
        *,
        here: bool = True,
    ) -> None:
        """`grid` is an empty one; the `objective` is a setting and a metric of a trial's runs."""
        self.settings, self.over, self.runs = on_validation(settings), over, grid.runs
        self.trials, self.at_once, self.objective = trials, at_once, objective
        self._here = here
        self._under_way: dict[int, list[Cell]] = {}  # the runs of a trial, by its number
        self.grid = grid
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

    @property
    def cells(self) -> list[Cell]:
        return self.grid.cells

    def stop(self) -> None:
        self.grid.stop()

    def done(self) -> int:
        return sum(trial.state.is_finished() for trial in self.study.get_trials())

    def best(self) -> tuple[dict[str, Any], float] | None:
        if all(trial.value is None for trial in self.study.get_trials()):
            return None
        found = self.study.best_trial
        return rounded(found.params), float(found.value)

    def tried(self) -> list[tuple[int, dict[str, Any], float | None]]:
        """Every trial's number, values and objective, the best first; None: it has none."""
        sign = 1 if METRICS[self.objective[1]].better == "min" else -1
        found = [(t.number, rounded(t.params), t.value) for t in self.study.get_trials()]
        return sorted(found, key=lambda one: math.inf if one[2] is None else sign * one[2])

    # --- the inside ------------------------------------------------------------------------------

    def _open_study(self) -> Any:
        """Named by settings, ranges and objective, so that other ones make another study."""
        optuna = self._optuna
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        settings = [(k, v) for k, v in flat(self.settings).items() if k not in LABELS]
        whole = repr((sorted(settings, key=str), self.over, self.objective))
        name = f"search-{blake2b(whole.encode(), digest_size=5).hexdigest()}"
        self.runs.mkdir(parents=True, exist_ok=True)
        storage = f"sqlite:///{(self.runs / 'search.db').absolute()}"
        study = optuna.create_study(
            storage=storage,
            study_name=name,
            direction="minimize" if METRICS[self.objective[1]].better == "min" else "maximize",
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
        try:
            cells = plan(merged(self.settings, *layers), self.runs, here=self._here)
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

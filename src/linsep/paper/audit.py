"""Printed numbers of the paper that are impossible or contradict each other.

Knows arithmetic only: each check states a relation that printed numbers must obey, and returns a
finding for each place where they do not. Does not know why, and corrects nothing.

The relations, for T tasks and a matrix of accuracies:
- FAA + (T-1)/T FF is the mean of each task's peak accuracy, so it is at most 100.
- A Class-IL prediction that is right is also right in Task-IL, so no Class-IL FAA or mean peak is
  above the Task-IL one.
- std(X + Y) >= |std(X) - std(Y)|, so the spreads of FAA and FF bound that of the mean peak below.
- A printed delta is the difference of two printed means; a bold number is the best of its column.
- Peaks are at least the accuracies right after learning, so FAA >= ALA - (T-1)/T FF; equal if each
  task peaks right after it was learned.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from .tables import TABLES, PaperTable, Place, at, protocol, table

ROUNDING = 0.01  # a difference of two numbers printed to two digits may be off by this
SPREAD = 5.0  # points: no method's mean peak moves this much from seed to seed


@dataclass(frozen=True)
class Finding:
    check: str
    text: str
    places: tuple[Place, ...]
    numbers: Mapping[str, float]


def audit() -> list[Finding]:
    """Every check over every table, in a fixed order."""
    checks = (
        impossible_peaks, class_above_task, unbelievable_spreads, wrong_deltas, wrong_bold,
        gamma_identity, disagreeing_tables,
    )  # fmt: skip
    return [finding for check in checks for finding in check()]


def impossible_peaks() -> Iterator[Finding]:
    """A mean peak above 100 %."""
    for faa, ff in _forgetting_pairs():
        peak = _mean_peak(faa, ff)
        if peak <= 100 + 2 * ROUNDING:
            continue
        numbers = {"faa": at(faa).mean, "ff": at(ff).mean, "peak": peak}
        text = (
            f"{faa}: FAA {numbers['faa']:.2f} with FF {numbers['ff']:.2f} needs a mean "
            f"peak of {peak:.1f} %"
        )
        if faa.setting == "class_il":
            bound = _mean_peak(_in_task_il(faa), _in_task_il(ff))
            likely = bound - _share(faa) * numbers["ff"]
            numbers |= {"task_il_peak": bound, "faa_at_most": likely}
            text += (
                f"; the Task-IL cells give {bound:.1f}, so with this FF the FAA is at most "
                f"{likely:.1f}"
            )
        yield _finding("impossible peak", text, (faa, ff), numbers)


def class_above_task() -> Iterator[Finding]:
    """A Class-IL number above the Task-IL number of the same runs."""
    for name in TABLES:
        for place, found in table(name).cells.items():
            other = _in_task_il(place)
            if place.metric != "faa" or place.setting != "class_il":
                continue
            upper = table(name).cells.get(other)
            if upper is not None and found.mean > upper.mean:
                text = f"{place}: Class-IL FAA {found.mean:.2f} > Task-IL {upper.mean:.2f}"
                numbers = {"class_il": found.mean, "task_il": upper.mean}
                yield _finding("class above task", text, (place, other), numbers)
    for faa, ff in _forgetting_pairs():
        if faa.setting != "class_il":
            continue
        peak, bound = _mean_peak(faa, ff), _mean_peak(_in_task_il(faa), _in_task_il(ff))
        if peak > bound + 4 * ROUNDING:
            text = f"{faa}: mean peak {peak:.2f} in Class-IL > {bound:.2f} in Task-IL"
            numbers = {"class_il_peak": peak, "task_il_peak": bound}
            yield _finding("class above task", text, (faa, ff), numbers)


def unbelievable_spreads() -> Iterator[Finding]:
    """Spreads of FAA and FF that only a mean peak swinging by many points could join."""
    for faa, ff in _forgetting_pairs():
        narrow, wide = at(faa).std, at(ff).std
        if narrow is None or wide is None:
            continue
        least = abs(_share(faa) * wide - narrow)
        if least > SPREAD:
            text = (
                f"{faa}: FF {at(ff).mean:.2f} ± {wide:.2f} beside FAA "
                f"{at(faa).mean:.2f} ± {narrow:.2f} needs a mean peak with a std of at least "
                f"{least:.1f} points between seeds"
            )
            numbers = {"faa_std": narrow, "ff_std": wide, "peak_std_at_least": least}
            yield _finding("unbelievable spread", text, (faa, ff), numbers)


def wrong_deltas() -> Iterator[Finding]:
    """A printed improvement that is not the difference of the printed means."""
    for name in TABLES:
        for place, found in table(name).cells.items():
            if found.delta is None:
                continue
            base = replace(place, method=place.method.partition("+")[0])
            difference = found.mean - at(base).mean
            if abs(found.delta - difference) > ROUNDING + 1e-9:
                text = (
                    f"{place}: printed as {found.delta:+.2f}, but {found.mean:.2f} - "
                    f"{at(base).mean:.2f} is {difference:+.2f}"
                )
                numbers = {"printed": found.delta, "difference": difference}
                yield _finding("wrong delta", text, (place, base), numbers)


def wrong_bold() -> Iterator[Finding]:
    """A number marked best of its column that another one beats, or a best one left unmarked."""
    for name in TABLES:
        for places in _columns(table(name)):
            cells = table(name).cells
            marked = [place for place in places if cells[place].bold]
            pick = min if places[0].metric == "ff" else max
            best = pick(cells[place].mean for place in places)
            winners = [place for place in places if cells[place].mean == best]
            if not marked or set(marked) == set(winners):
                continue
            shown = ", ".join(f"{p.method} {cells[p].mean:.2f}" for p in marked)
            better = ", ".join(f"{p.method} {cells[p].mean:.2f}" for p in winners)
            text = f"{marked[0]}: {shown} is printed in bold, the best is {better}"
            numbers = {"marked": cells[marked[0]].mean, "best": best}
            yield _finding("wrong bold", text, (*marked, *winners), numbers)


def gamma_identity() -> Iterator[Finding]:
    """FAA = ALA - (T-1)/T FF, row by row of the gamma table."""
    cells = table("gamma").cells
    for place, faa in cells.items():
        if place.metric != "faa":
            continue
        ff, ala = (replace(place, metric=metric) for metric in ("ff", "ala"))
        expected = cells[ala].mean - _share(place) * cells[ff].mean
        if abs(faa.mean - expected) > 2 * ROUNDING:
            verb = "later peaks could explain it" if faa.mean > expected else "which cannot be"
            text = (
                f"{place}: FAA {faa.mean:.2f}, but ALA {cells[ala].mean:.2f} - "
                f"{_share(place):g} x FF {cells[ff].mean:.2f} is {expected:.2f} ({verb}; "
                "the other rows agree to 0.01)"
            )
            numbers = {"faa": faa.mean, "expected": expected}
            yield _finding("gamma identity", text, (place, ff, ala), numbers)


def disagreeing_tables() -> Iterator[Finding]:
    """One experiment printed with two results. The main tables' gamma is 1."""
    for name in TABLES:
        for place, found in table(name).cells.items():
            if place.gamma not in (None, 1.0) or place.metric == "ala":
                continue
            other = replace(place, gamma=None)
            main = at(other)
            if main.mean != found.mean:
                text = (
                    f"{place}: {found.mean:.2f} in table {table(name).number}, "
                    f"{main.mean:.2f} elsewhere"
                )
                numbers = {"here": found.mean, "elsewhere": main.mean}
                yield _finding("disagreeing tables", text, (place, other), numbers)


def _finding(
    check: str, text: str, places: tuple[Place, ...], numbers: Mapping[str, float]
) -> Finding:
    rounded = {name: round(number, 6) for name, number in numbers.items()}
    return Finding(check, text, places, MappingProxyType(rounded))


def _forgetting_pairs() -> Iterator[tuple[Place, Place]]:
    """Places with both an accuracy and a forgetting from the main tables."""
    for ff in table("ff").cells:
        yield replace(ff, metric="faa"), ff


def _columns(found: PaperTable) -> list[list[Place]]:
    """The places that compete with each other: everything equal but the method."""
    columns: dict[Place, list[Place]] = {}
    for place in found.cells:
        columns.setdefault(replace(place, method=""), []).append(place)
    return list(columns.values())


def _mean_peak(faa: Place, ff: Place) -> float:
    return at(faa).mean + _share(faa) * at(ff).mean


def _share(place: Place) -> float:
    """(T-1)/T: the share of tasks that can be forgotten."""
    tasks: int = protocol(place.scenario)["tasks"]
    return (tasks - 1) / tasks


def _in_task_il(place: Place) -> Place:
    return replace(place, setting="task_il")

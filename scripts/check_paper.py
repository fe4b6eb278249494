"""Compare the paper's LaTeX source with the data in linsep.paper, number by number.

    python scripts/check_paper.py bfp.tex

Prints how much was compared and every mismatch; exits with 1 if there is one. Knows how this one
paper is typeset; reads tables and boxes by itself and shares only the names with the library.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from linsep.paper.tables import SCENARIOS, TABLES, Cell, Place, protocol, table

Facts = dict[tuple[str, str, str], Any]  # (scenario, section, name) -> value

DATASETS = {
    "S-CIFAR10": "split-cifar10",
    "S-CIFAR100": "split-cifar100",
    "S-TinyImageNet": "split-tinyimagenet",
    "S-TinyImg": "split-tinyimagenet",
    "Split CIFAR-10": "split-cifar10",
    "Split CIFAR-100": "split-cifar100",
    "Split TinyImageNet": "split-tinyimagenet",
}
METHODS = {
    "Joint Training": "jt",
    "JT": "jt",
    "Finetuning": "ft",
    "Finetune": "ft",
    "FT": "ft",
    "iCaRL": "icarl",
    "FDR": "fdr",
    "LUCIR": "lucir",
    "BiC": "bic",
    "ER-ACE": "er_ace",
    "ER": "er",
    "DER++": "derpp",
}
PROJECTIONS = {"FD": "fd", "BFP": "bfp", "BFP-2": "bfp2"}
SYMBOLS = {
    "lr": "lr",
    "wd": "weight_decay",
    "mom": "momentum",
    r"\lambda_base": "less_forget",
    "k": "nearest",
    "m": "margin",
    "epoch_fitting": "fitting_epochs",
    "lr_fitting": "fitting_lr",
    r"\tau": "temperature",
    "epochs_BiC": "bias_epochs",
    r"\beta": "replay_ce",
}
ALPHA = {"fdr": "replay_probabilities", "derpp": "replay_logits"}
SPLITS = {  # how the text says into how many tasks of how many classes a set is split
    "split-cifar10": r"CIFAR-10~\S+ dataset into (\d+) tasks, with each task composed of (\d+)",
    "split-cifar100": r"CIFAR-100~\S+ into (\d+) tasks, with (\d+) classes per task",
    "split-tinyimagenet": r"TinyImageNet~\S+ into (\d+) tasks, with (\d+) classes per task",
    "split-imagenet100": r"ImageNet100 into (\d+) tasks with (\d+) classes per task",
}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compare the paper's source with linsep's data.")
    parser.add_argument("paper", type=Path, help="the paper's LaTeX source (bfp.tex)")
    tex = parser.parse_args(argv).paper.read_text(encoding="utf-8")
    wrong, cells, numbers = [], 0, 0
    for name in TABLES:
        printed = read_table(tex, name)
        present = {place: cell for place, cell in printed.items() if cell is not None}
        mismatches = [f"{name}: {line}" for line in compare_cells(present, name)]
        wrong += mismatches + check_runs(tex, name)
        count = sum(n is not None for c in present.values() for n in (c.mean, c.std, c.delta))
        dashes = len(printed) - len(present)
        cells, numbers = cells + len(printed), numbers + count
        print(f"{name}: {len(present)} cells, {dashes} dashes, {count} numbers")
    facts = read_facts(tex)
    wrong += compare_facts(facts)
    print(f"tables: {cells} cells, {numbers} numbers; hyper-parameters: {len(facts)} values")
    print(*(f"MISMATCH {line}" for line in wrong), f"mismatches: {len(wrong)}", sep="\n")
    return 1 if wrong else 0


# ---- tables


def read_table(tex: str, name: str) -> dict[Place, Cell | None]:
    """The cells as typeset; None where a dash is printed."""
    environment = environments(tex)[table(name).label]
    rows = list(split_rows(environment))
    if name in ("faa", "ff"):
        return dict(read_main(rows, name))
    if name == "gamma":
        return dict(read_gamma(rows))
    if name == "imagenet100":
        (memory,) = search(r"memory buffer of size (\d+)", tex)
        return dict(read_imagenet(rows, int(memory)))
    (base,) = search(r"base(?:line)? method is (\S+)\. \}", environment)
    return dict(read_ablation(rows, METHODS[base]))


def environments(tex: str) -> dict[str, str]:
    """Every table by its label, in print order."""
    found = re.findall(r"\\begin\{table\*?\}.*?\\end\{table\*?\}", tex, re.DOTALL)
    return {search(r"\\label\{(.*?)\}", each)[0]: each for each in found}


def split_rows(environment: str) -> Iterator[list[str]]:
    """Rows of cells; a cell that spans two columns is followed by an empty one."""
    (body,) = search(r"\\begin\{tabular\}\{[^}]*\}(.*)\\end\{tabular\}", environment)
    body = re.sub(r"\\hline|\\cline\{[^}]*\}|~?\\cite\{[^}]*\}", "", body)
    for line in body.split(r"\\"):
        row: list[str] = []
        for cell in line.split("&"):
            spanned = re.match(
                r"\s*\\multi(column|row)\{(\d)\}\{[^}]*\}\{(.*)\}\s*$", cell, re.DOTALL
            )
            row.append((spanned[3] if spanned else cell).strip())
            if spanned and spanned[1] == "column":
                row += [""] * (int(spanned[2]) - 1)
        if any(row):
            yield row


def read_main(rows: list[list[str]], metric: str) -> Iterator[tuple[Place, Cell | None]]:
    scenarios = [DATASETS[name] for name in filled_right(rows[0][2:])]
    memories = [int(size) for size in rows[1][2:]]
    settings = filled_right([row[0] for row in rows[2:]])
    for setting, row in zip(settings, rows[2:], strict=True):
        title = re.sub(r"\(.*?\)", "", row[1]).strip()
        base, _, projection = title.partition(" w/ ")
        method = METHODS[base] + (f"+{PROJECTIONS[projection]}" if projection else "")
        for scenario, size, text in zip(scenarios, memories, row[2:], strict=True):
            if text:
                memory = None if method in ("jt", "ft") else size
                yield Place(scenario, memory, method, metric, snake(setting)), read_cell(text)


def read_ablation(rows: list[list[str]], base: str) -> Iterator[tuple[Place, Cell | None]]:
    kinds = [PROJECTIONS[name] for name in rows[0][2:]]
    for dataset, row in zip(filled_right([row[0] for row in rows[1:]]), rows[1:], strict=True):
        for kind, text in zip(kinds, row[2:], strict=True):
            method, scenario = f"{base}+{kind}", DATASETS[dataset]
            yield Place(scenario, int(row[1]), method, "faa", "class_il"), read_cell(text)


def read_imagenet(rows: list[list[str]], memory: int) -> Iterator[tuple[Place, Cell | None]]:
    for row in rows[1:]:
        for title, text in zip(rows[0][1:], row[1:], strict=True):
            kind = title.removeprefix("w/ ")
            method = METHODS[kind] if kind in METHODS else f"derpp+{PROJECTIONS[kind]}"
            place = Place("split-imagenet100", memory, method, "faa", snake(row[0]))
            yield place, read_cell(text)


def read_gamma(rows: list[list[str]]) -> Iterator[tuple[Place, Cell | None]]:
    for row in rows[1:]:
        for gamma, text in zip(rows[0][1:], row[1:], strict=True):
            metric = row[0].lower()
            place = Place("split-cifar10", 500, "derpp+bfp", metric, "class_il", float(gamma))
            yield place, read_cell(text)


def read_cell(text: str) -> Cell | None:
    bold = r"\textbf" in text
    plain = re.sub(r"\\textbf\{([^{}]*(?:\{[^{}]*\}\{[^{}]*\})?[^{}]*)\}", r"\1", text)
    if plain == "-":
        return None
    if delta := re.search(r"\\(boost|reduce)\{([\d.]+)\}", plain):
        plain = plain.replace(delta[0], "")
    numbers = [float(each) for each in re.findall(r"\d+\.\d+", plain)]
    signed = (1 if delta[1] == "boost" else -1) * float(delta[2]) if delta else None
    return Cell(numbers[0], numbers[1] if len(numbers) > 1 else None, signed, bold)


def compare_cells(printed: dict[Place, Cell], name: str) -> Iterator[str]:
    typed = table(name).cells
    for place in {**printed, **typed}:
        if printed.get(place) != typed.get(place):
            yield f"{place}: paper {printed.get(place)}, data {typed.get(place)}"


def check_runs(tex: str, name: str) -> list[str]:
    """The number of runs and the table's number."""
    found = table(name)
    pattern = r"std over (\d) runs" if name == "imagenet100" else r"computed over (\d) runs"
    runs = None if name == "gamma" else int(search(pattern, tex)[0])
    number = 1 + list(environments(tex)).index(found.label)
    wrong = [] if found.runs == runs else [f"{name}: {runs} runs, data {found.runs}"]
    return wrong if found.number == number else [*wrong, f"{name}: it is table {number}"]


# ---- hyper-parameters


def read_facts(tex: str) -> Facts:
    """Every hyper-parameter in the appendix's boxes and in the prose."""
    facts: Facts = {}
    for title, body in re.findall(
        r"\\subsubsection\{(Split .*?)\}(.*?)(?=\\subsubsection|\\section)", tex, re.DOTALL
    ):
        memory = "no_memory"
        for line in body.splitlines():
            if size := re.search(r"Buffer size = (\d+)", line):
                memory = size[1]
            elif entry := re.match(r"\\noindent\{\\bf (.*?)\}: (.*)", line):
                method = METHODS[entry[1]]
                for name, value in read_box(entry[2], method):
                    facts[DATASETS[title], f"{memory}.{method}", name] = value
    for scenario in SCENARIOS:
        facts |= {(scenario, *key): value for key, value in read_prose(tex, scenario)}
    return facts


def read_box(text: str, method: str) -> Iterator[tuple[str, float]]:
    plain = re.sub(r"\\text(?:rm)?\{(.*?)\}", r"\1", text).replace("$", "")
    plain = re.sub(r"_\{(.*?)\}", r"_\1", plain)
    for item in plain.split(", "):
        symbol, _, value = item.partition("=")
        name = ALPHA[method] if symbol == r"\alpha" else SYMBOLS[symbol]
        yield name, scientific(value)


def read_prose(tex: str, scenario: str) -> Iterator[tuple[tuple[str, str], Any]]:
    tasks, classes = search(SPLITS[scenario], tex)
    yield ("", "tasks"), int(tasks)
    yield ("", "classes_per_task"), int(classes)
    lr, momentum, gamma = search(
        r"optimizer with a learning rate of ([\d.]+) and momentum of ([\d.]+)\..*? is (\d+)\.", tex
    )
    yield ("projection", "projection_lr"), float(lr)
    yield ("projection", "projection_momentum"), float(momentum)
    yield ("projection", "projection_weight"), float(gamma)
    if scenario == "split-imagenet100":
        epochs, rate, decay = search(
            r"trained for (\d+) epochs on each .*? rate of ([\d.]+) and weight decay of \$(.*?)\$",
            tex,
        )
        warmup, factor, steps = search(
            r"first (\d+) epochs .*? a ([\d.]+) rate after (.*?) ep", tex
        )
        yield ("common", "lr"), float(rate)
        yield ("common", "weight_decay"), scientific(decay)
        yield ("common", "warmup_epochs"), int(warmup)
        yield ("common", "milestone_factor"), float(factor)
        yield ("common", "milestones"), integers(steps)
    else:
        cifar, tiny = search(r"for (\d+) epochs per task .*? and (\d+) epochs per task", tex)
        epochs = tiny if scenario == "split-tinyimagenet" else cifar
    yield ("common", "epochs"), int(epochs)
    if scenario in ("split-cifar100", "split-tinyimagenet"):
        divisor, *steps100 = search(r"is divided by (\d+) .*?\[(.*?)\].*?\[(.*?)\]", tex)
        yield ("common", "milestone_factor"), 1 / int(divisor)
        yield ("common", "milestones"), integers(steps100[scenario == "split-tinyimagenet"])


def typed_facts(scenario: str) -> Facts:
    """The text's value of everything the data call stated."""
    raw = protocol(scenario)
    sections = {"common": raw["common"], "projection": raw["projection"]}
    sections |= {f"no_memory.{name}": each for name, each in raw.get("no_memory", {}).items()}
    for size, methods in raw["memory"].items():
        sections |= {f"{size}.{name}": each for name, each in methods.items()}
    facts: Facts = {(scenario, "", n): raw[n] for n in ("tasks", "classes_per_task")}
    for section, values in sections.items():
        for name, value in values.items():
            if not isinstance(value, dict):
                facts[scenario, section, name] = value
            elif value.get("stated", True):
                facts[scenario, section, name] = value["text"]
    return facts


def compare_facts(printed: Facts) -> list[str]:
    """Both ways: nothing printed is missing, nothing called stated is unprinted."""
    typed: Facts = {}
    for scenario in SCENARIOS:
        typed |= typed_facts(scenario)
    wrong = []
    for scenario, section, name in {**printed, **typed}:
        key, shared = (scenario, section, name), (scenario, "common", name)
        paper = printed.get(key, printed.get(shared) if key in typed else None)
        if paper is None or typed.get(key) is None or paper != typed[key]:
            wrong.append(f"{'/'.join(key)}: paper {paper}, data {typed.get(key)}")
    return wrong


# ---- text


def search(pattern: str, text: str) -> tuple[str, ...]:
    found = re.search(pattern, text, re.DOTALL)
    if found is None:
        raise SystemExit(f"not the expected paper: nothing matches {pattern!r}")
    return found.groups()


def scientific(text: str) -> float:
    """0.03, 10^{-5} or 5\\times 10^{-4}."""
    found = re.fullmatch(r"(?:([\d.]+)\\times )?10\^\{(-\d+)\}", text.strip())
    return float(f"{found[1] or 1}e{found[2]}") if found else float(text)


def integers(text: str) -> list[int]:
    return [int(each) for each in re.findall(r"\d+", text)]


def filled_right(names: list[str]) -> list[str]:
    """An empty name repeats the one before it."""
    filled: list[str] = []
    for name in names:
        filled.append(name or filled[-1])
    return filled


def snake(setting: str) -> str:
    return setting.lower().replace("-", "_")


if __name__ == "__main__":
    sys.exit(main())

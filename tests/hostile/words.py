"""Command lines, conditions and config files that no one should type."""

from collections.abc import Iterator

from linsep.settings.layers import full_name

from .badness import DEEP, PLACES
from .case import Case, putting, writing
from .stage import NAME

TRAIN = (
    "run", "--scenario", "blobs", "--method", "ft", "--epochs", "1", "--net", "mlp",
    "--set", "scenario.train=4", "--set", "scenario.test=2", "--set", "scenario.classes=2",
    "--set", "scenario.per_task=1", "--set", "compute.threads=1", "-q",
)  # fmt: skip
VALUES = (
    DEEP, "9" * 5000, "9" * 300, "²", "1e999", "-1e999", "nan", "true", "'1'", "\udcff",
    "\x1b[31mx", "a\nb", "{a=1}", "[]", "''", "", "1979-05-27", "0x" + "f" * 4000, "1e308", "-0.0",
    "'a'*3", '"""x"""', "9223372036854775808", "-1", "[bold]x[/]", "x" * 5000, "a\0b", "../..",
)  # fmt: skip
FIELDS = (
    "seed", "training.lr", "training.epochs", "training.batch_size", "training.momentum", "memory",
    "memory.size", "memory.policy", "net", "net.width", "net.options", "scenario", "scenario.data",
    "scenario.train", "scenario.noise", "scenario.options", "scenario.per_task",
    "scenario.validation", "scenario.order", "method", "preset", "compute", "compute.threads",
    "compute.device", "compute.deterministic", "training", "training.schedule",
    "training.schedule.milestones", "ft.x", "bfp", "bfp.weight", "options", "evaluation.chunk",
    "evaluation.rule", "a", "", "." * 20, ".".join("a" * 4000), "\udcff", "²",
)  # fmt: skip
WITH_A_VALUE: tuple[tuple[str, ...], ...] = (
    ("runs", "--where", "{}"), ("runs", "--where", "seed={}"), ("runs", "--where", "{}>1"),
    ("runs", "--where", "method in ({}, {})"), ("runs", "--where", "not ({}"),
    ("runs", "--where", "faa>{} and seed<{}"), ("runs", "--sort", "{}"), ("runs", "--fields", "{}"),
    ("compare", "--where", "seed={}"), ("compare", "--against", "{}"), ("compare", "{}"),
    ("compare", "--format", "{}"), ("compare", "-o", "{}/x"),
    ("report", "{}"), ("report", "--where", "{}"), ("report", "--grid", "{}"),
    ("report", "--figures", "f", "--format", "{}"), ("report", "--figures", "f", "--only", "{}"),
    ("analyse", "{}"),
    ("analyse", "--what", "{}"), ("analyse", "--engine", "{}"), ("analyse", "--task", "{}"),
    ("analyse", "--points", "{}"), ("analyse", NAME, "--what", "tsne", "--task", "{}"),
    ("analyse", NAME, "--what", "probe", "--data", "{}"),
    ("list", "settings", "{}"), ("list", "methods", "{}", "--format", "json"),
    ("list", "configs", "--format", "{}"), ("runs", "--format", "{}"),
    ("grid", "--over", "width={}", "--dry-run"), ("grid", "--width", "{}", "--over", "seed=0"),
    ("search", "--over-range", "lr=0.1..1", "--data", "{}", "--set", "method=nope"),
    ("show", "{}"), ("show", NAME, "--runs", "{}"), ("list", "{}"), ("log", "{}", "--to", "x"),
    ("log", NAME, "--to", "{}"), ("{}",), ("run", "--x{}"), ("run", "{}"),
    ("run", "--cell", "{}"), ("run", "--method", "{}", "--scenario", "blobs"),
    ("run", "--scenario", "{}"), ("run", "--net", "{}", "--scenario", "blobs"),
    ("run", "--seed", "{}", "--method", "nope"), ("run", "--lr", "{}", "--method", "nope"),
    ("run", "--memory", "{}", "--method", "nope"), ("run", "--preset", "{}"),
    ("run", "--device", "{}"), ("run", "--keep", "{}", "--method", "nope"),
    ("run", "--log", "{}", "--method", "nope"), ("run", "--data", "{}", "--scenario", "folder"),
    ("grid", "{}"), ("grid", "--over", "{}", "--dry-run"), ("grid", "--over", "{}=1", "--dry-run"),
    ("grid", "--over", "seed={}", "--dry-run"), ("grid", "--over", "seed=0..{}", "--dry-run"),
    ("grid", "--over", "seed={}..3", "--dry-run"), ("grid", "--over", "memory={}", "--dry-run"),
    ("grid", "--over", "training.lr={}", "--dry-run"),
    ("grid", "--over", "method=er,{}", "--dry-run"),
    ("grid", "--over", "seed=0,1", "--on", "{}", "--dry-run"),
    ("grid", "--over", "seed=0,1", "--slurm", "{}", "--on", "slurm", "--dry-run"),
    ("grid", "--over", "seed=0,1", "--workers", "{}", "--dry-run"),
    ("search", "--over-range", "{}", "--set", "method=nope"),
    ("search", "--over-range", "training.lr={}", "--set", "method=nope"),
    ("search", "--over-range", "training.lr=0..{}", "--set", "method=nope"),
    ("search", "--over-range", "{}=0..1", "--set", "method=nope"),
    ("search", "--over-range", "training.lr=0.1..1", "--metric", "{}", "--set", "method=nope"),
    ("paper", "run", "{}"), ("paper", "table", "{}"), ("paper", "table", "1", "--scenario", "{}"),
    ("paper", "table", "1", "--method", "{}"), ("paper", "table", "1", "--preset", "{}"),
    ("paper", "run", "1", "--scale", "{}"), ("paper", "audit", "--format", "{}"),
    ("data", "check", "{}"), ("data", "prepare", "{}"), ("data", "draw", "{}", "-o", "x.png"),
    ("data", "draw", "blobs", "-o", "{}"), ("data", "get", "{}"), ("data", "list", "--data", "{}"),
    ("data", "check", "folder", "--data", "{}"), ("data", "check", "table", "--data", "{}"),
    ("data", "check", "arrays", "--data", "{}"), ("data", "check", "code", "--data", "{}"),
    ("data", "check", "huggingface", "--data", "{}"), ("data", "check", "mnist", "--data", "{}"),
    ("data", "draw", "blobs", "-o", "x.png", "--per-task", "{}"),
    ("data", "prepare", "folder", "--data", ".", "--image-size", "{}"),
    ("data", "prepare", "folder", "--data", ".", "--test-share", "{}"),
    ("learn", "{}", "nowhere"), ("learn", "m", "{}"), ("learn", "m", "nowhere", "--classes", "{}"),
    ("learn", "m", "nowhere", "--method", "{}"), ("learn", "m", "nowhere", "--net", "{}"),
    ("learn", "m", "nowhere", "--set", "{}"), ("learn", "m", "nowhere", "--set", "memory={}"),
    ("learn", "m", "nowhere", "--image-size", "{}"), ("learn", "m", "nowhere", "--seed", "{}"),
    ("learn", "m", "nowhere", "--test-share", "{}"), ("learn", "m", "nowhere", "--device", "{}"),
    ("predict", "{}", "x.png"), ("predict", "m", "{}"), ("predict", "m", "x", "--format", "{}"),
    ("model", "undo", "{}"), ("model", "history", "{}"), ("model", "rename", "m", "{}", "x"),
    ("model", "rename", "m", "ant", "{}"), ("model", "merge", "m", "{}", "ant"),
    ("model", "forget", "m", "--class", "{}"), ("model", "forget", "m", "--images", "{}"),
    ("model", "relabel", "m", "{}"),
    ("model", "{}"), ("model", "m", "--format", "{}"), ("export", "{}", "-o", "x.onnx"),
)  # fmt: skip
# None is a place of runs. Nothing can be made in some of them, and nothing be read in others.
PATHS = (
    "/sys/x", "/proc/x", "/dev/null/x", "/dev/null", "x" * 300, "/" + "x/" * 3000, "\udcff",
    "/proc/self/mem", "/etc/passwd/x", "config.toml", "a\nb", "\x1b[31mred",
)  # fmt: skip
AT_A_PATH: tuple[tuple[str, ...], ...] = (
    (*TRAIN, "--runs", "{}"), ("runs", "--runs", "{}"), ("compare", "--runs", "{}"),
    ("report", "--runs", "{}"), ("show", "x", "--runs", "{}"), ("analyse", "--runs", "{}"),
    ("report", "--figures", "{}"), ("paper", "table", "1", "--runs", "{}"),
    ("run", "{}", "--method", "nope"),
    ("paper", "audit", "-o", "{}"), ("compare", "-o", "{}"), ("log", NAME, "--to", "tensorboard",
    "-o", "{}"), ("data", "draw", "blobs", "-o", "{}/x.png"), ("grid", "{}", "--dry-run"),
    ("grid", "--over", "seed=0,1", "--runs", "{}", "--dry-run"), ("report", "--grid", "{}"),
    ("run", "--data", "{}", "--scenario", "arrays"), ("data", "check", "cifar10", "--data", "{}"),
)  # fmt: skip
DOCUMENTS = (
    b"\xff", b"a=" * 10, f"a={DEEP}".encode(), b"seed=" + b"9" * 5000,
    b".".join([b"a"] * 3000) + b"=1", b"over=1", b"[over]\nseed=1", b"search=1",
    b"[search]\ntrials='x'", b"[search]\ntrials=true\nx=1", b"[search.over]\nlr=1", b"method=[1]",
    b"method=1", b"scenario=[]", b"training=1", b"compute=1\n[over]\nseed=[1]",
    b"[[training]]\nlr=1", b"preset=1", b"[options]\nx=1", b"options=1",
    b"scenario=1\n[over]\nseed=[1]", b"seed=1979-05-27", b"[over]\nseed=[[1]]",
    b"[over.seed]\nx=[1]", b"[over]\nmethod=[1,2]", b'[over]\n""=[1]', b"[over]\nseed=[]",
    b"[over]\nseed=[nan, inf]", b"[over]\nseed=[true]", b"\0" * 500, b"seed=1\nseed=2",
    b"[a]\n[a]", b'method="\\u0000"', b'"\\u001b[31m"=1', b"[net]\nname={}", b"[memory]\nrows=[]",
    b"[over]\n" + b"\n".join(b"a%d=[1,2,3,4,5,6,7,8]" % i for i in range(40)),
    b"seed = 1_0", b"seed = '''\n'''", b"[training.schedule]\nmilestones=[0, -1]",
    b"[training.schedule]\nmilestones=1", b"\xef\xbb\xbfseed=1", b"seed=1\r\rmethod='er'",
)  # fmt: skip
READERS: tuple[tuple[str, ...], ...] = (
    ("run", "c.toml", "--set", "compute.precision=x"), ("grid", "c.toml", "--dry-run"),
    ("search", "c.toml", "--over-range", "training.lr=0.1..1", "--set", "compute.precision=x"),
    ("report", "--grid", "c.toml"),
)  # fmt: skip


def _short(text: str) -> str:
    return repr(text if len(text) < 30 else f"{text[:12]}... ({len(text)})")


def _filled(words: tuple[str, ...], value: str) -> Case:
    name = " ".join(words if words[: len(TRAIN)] != TRAIN else ("run", *words[len(TRAIN) :]))
    return Case(f"{name} with {_short(value)}", tuple(w.replace("{}", value) for w in words))


def kinds() -> dict[str, list[Case]]:
    return {
        "--set": list(_settings()),
        "options": [
            _filled(words, value)
            for i, words in enumerate(WITH_A_VALUE)
            for value in VALUES[i % 2 :: 2]  # every other: the neighbours have the rest
        ],
        "paths": [_filled(words, path) for words in AT_A_PATH for path in PATHS],
        "documents": list(_documents()),
    }


def _settings() -> Iterator[Case]:
    for i, field in enumerate(FIELDS):
        for value in VALUES[i % 2 :: 2]:
            words = (*_train_without(field), "--set", f"{field}={value}")
            yield Case(f"--set {_short(field)} = {_short(value)}", words)


def _train_without(field: str) -> tuple[str, ...]:
    """The words of a run that leave this setting open: given twice, that would be refused."""
    kept = []
    for flag, value in zip(TRAIN[1:-1:2], TRAIN[2:-1:2], strict=True):
        name = value.partition("=")[0] if flag == "--set" else flag.removeprefix("--")
        if full_name(name) != full_name(field):
            kept += [flag, value]
    return TRAIN[0], *kept, TRAIN[-1]


def _documents() -> Iterator[Case]:
    for content in DOCUMENTS:
        for words in READERS:
            name = f"{words[0]} with {content[:30]!r}"
            yield Case(name, words, writing("c.toml", content))
    for name, make in PLACES.items():
        for words in READERS if name != "pipe" else ():  # which a shell may give: <(generate)
            yield Case(f"{words[0]} with {name}", words, putting("c.toml", make))
    for words in READERS:
        name = f"{words[0]} with an unreadable file"
        yield Case(name, words, writing("c.toml", b"seed=1"), denied="c.toml")

"""Train a run into its folder from Python: the same key, the same bits as `linsep run`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import torch

from ..cli.progress import Watcher
from ..cli.terminal import Stop, open_console
from ..errors import ConfigError, shortened, unknown
from ..prepare import prepare
from ..settings.config import Config, from_settings
from ..settings.layers import merged, read
from ..settings.sections import Keep
from ..storage.resumable import SAVE_EVERY, threads
from ..storage.session import Session
from ..storage.store import Record, read_facts
from .saved import SavedRun

if TYPE_CHECKING:
    from torch import nn

    from ..data.images import Dataset

Settings = Config | Mapping[str, Any] | str | PathLike[str]


def train(
    config: Settings,
    *,
    data: Dataset | None = None,
    net: nn.Module | None = None,
    runs: str | PathLike[str] = "runs",
    keep: Keep | None = None,
    save_every: float = SAVE_EVERY,
    progress: bool = False,
) -> SavedRun:
    """Train a run in its folder under `runs`, resume it if it was stopped, and return it.

    >>> import linsep
    >>> config = {"scenario": "blobs", "method": "er", "memory": 20, "training": {"epochs": 1}}
    >>> run = linsep.train(config)
    >>> run.name.startswith("blobs-er-m20-s0-")
    True
    >>> run.metrics["class_il"]["faa"] == linsep.train(config).metrics["class_il"]["faa"]
    True

    The folder is the one that `linsep run` writes for these settings. A finished run is returned at
    once. Ctrl-C, or a notebook's stop button, saves the run first: call `train` again to resume it.

    `config` is a `linsep.Config`, a dict with the tables of a TOML file or with dotted or short
    names ("training.epochs", "epochs"), or the path of a TOML file. `data` and `net` are a data set
    and a backbone of your own; `keep` chooses the snapshots that analyses need: "end", "tasks" or
    "epochs".
    """
    if keep not in (None, *get_args(Keep)):
        raise ConfigError(f"keep: {unknown('kind', keep, get_args(Keep))}")
    prepared = prepare(configured(config), data=data, net=net)
    # A run sets the number of threads that its bits depend on; the session gets its own back.
    kept = threads(torch.get_num_threads())
    with kept, Session(prepared, Path(runs), save_every=save_every, keep=keep) as session:
        if session.run is not None:
            _follow(session, progress)
    return SavedRun(Record(session.folder, read_facts(session.folder)), prepared=prepared)


def configured(config: Settings) -> Config:
    """Return the config that a Config, a dict of settings, or a TOML file stands for."""
    if isinstance(config, Config):
        return config
    if isinstance(config, Mapping):
        settings, where = merged({str(name): value for name, value in config.items()}), "config"
    elif isinstance(config, str | PathLike):
        settings, where = read(Path(config)), str(config)
    else:
        raise ConfigError(
            f"config: should be a linsep.Config, a dict or the path of a TOML file, "
            f"not {shortened(config)}"
        )
    if "over" in settings:
        raise ConfigError(f"{where}: has lists under [over]; train one run, or use `linsep grid`")
    settings.pop("search", None)  # of `linsep search`, which may share the file
    return from_settings(settings)


def _follow(session: Session, progress: bool) -> None:
    """Train to the end; a signal saves first, and is then passed on."""
    assert session.run is not None
    stopping = Stop()
    with ExitStack() as opened:
        if threading.current_thread() is threading.main_thread():  # where signals arrive
            opened.enter_context(stopping)
        watcher = Watcher(session.run, open_console(quiet=not progress))
        opened.enter_context(watcher.bar)
        for event in session:
            watcher.see(event)
            if stopping.signal is not None and not session.run.finished:
                session.save()
                break
    if stopping.signal is not None:
        signal.raise_signal(stopping.signal)

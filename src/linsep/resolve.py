"""Resolve a config: fill in every value that the user left open.

Knows the sections, the scenarios' and methods' suggestions, the presets and this machine's devices.
Opens no data and builds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import ConfigError, DeviceError, shortened, unknown
from .settings import sections
from .settings.config import Config
from .settings.layers import merged
from .settings.signature import complete, validate

if TYPE_CHECKING:
    from .learning.method import Method


def gathered(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Move tables that are no section of a config to `options`, where the method finds them."""
    from .methods import METHODS, TERMS
    from .settings.reference import sections as names
    from .settings.reference import unknown_setting

    own = {k: v for k, v in settings.items() if k in Config.model_fields}
    rest = {k: v for k, v in settings.items() if k not in Config.model_fields}
    for name, value in rest.items():
        if name in METHODS or name in TERMS:
            if not isinstance(value, Mapping):
                raise ConfigError(f"{name}: should be a table of options, not {shortened(value)}")
        elif isinstance(value, Mapping):
            raise ConfigError(unknown("section", name, [*names(), *METHODS, *TERMS]))
        else:
            raise ConfigError(unknown_setting(name))
    return merged(own, {"options": rest}) if rest else own


def resolve(config: Config, *, lenient: bool = False, here: bool = True) -> Config:
    """Return the config with every value that decides the run filled in.

    What the user gave comes first, then the preset, what the scenario suggests, what the method
    does, and last the sections' defaults. `lenient` drops what does not concern the method (memory
    settings where it keeps none, options of other parts), which otherwise is refused: a grid gives
    one set of settings to many methods. The device is checked only if the run is to happen `here`.
    """
    from .data.registry import source
    from .methods import assemble, parts
    from .nets import backbones
    from .settings.presets import PRESETS

    named = parts(config.method)
    given = config.model_dump(exclude_unset=True)
    preset = dict(PRESETS[config.preset]) if config.preset else {}
    chosen = _options(named, preset.pop("options", {}), given.pop("options", {}), lenient)
    method = assemble("+".join(named), chosen)
    found = source(config.scenario.name)
    suggested = _suggested(method, found.suggests)
    resolved = validate(Config, merged(suggested, preset, given, {"options": chosen}))
    scenario, net = resolved.scenario, resolved.net
    options = complete(found.load, scenario.options, "scenario", sections.Scenario.own())
    options = {k: v for k, v in options.items() if k not in found.added or v != found.added[k]}
    per_task = scenario.per_task or found.per_task
    subset = resolved.seed if scenario.subset_seed == "seed" else scenario.subset_seed
    own = {"options": options, "per_task": per_task, "subset_seed": subset}
    net_options = backbones.fitting(net.name, method.net_options) | net.options
    settled = {
        "method": "+".join(named),
        "training": _training(resolved.training),
        "memory": _memory(method, named[0], resolved, given.get("memory", {}), lenient),
        "net": sections.Net(name=net.name, options=backbones.options(net.name, net_options)),
        "scenario": scenario.model_copy(update=own),
        "compute": _compute(resolved.compute, here),
    }
    return resolved.model_copy(update=settled)


def _suggested(method: Method, scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the method's suggestions with the scenario's, which win.

    A scenario's learning rate is for SGD without momentum on a cross-entropy; with momentum m,
    steps of the same length need 1 - m times that, and a method whose loss has smaller gradients
    names a factor of its own.
    """
    layers = merged({"training": {"lr": method.lr} | dict(method.suggests)}, scenario)
    if "lr" in scenario.get("training", {}):
        training = layers["training"]
        factor = method.rate_factor * (1 - training.get("momentum", 0.0))
        training["lr"] = round(training["lr"] * factor, 12)
    return layers


def _options(
    named: tuple[str, ...], preset: Mapping[str, Any], given: Mapping[str, Any], lenient: bool
) -> dict[str, dict[str, Any]]:
    from .methods import recipe

    strays = [part for part in given if part not in named]
    if strays and not lenient:
        raise ConfigError(f"{strays[0]}: is no part of the method {'+'.join(named)!r}")
    layers = merged(preset, given)
    return {part: complete(recipe(part), layers.get(part, {}), part) for part in named}


def _training(wanted: sections.Training) -> sections.Training:
    """Turn milestones that are shares of the epochs into epochs."""
    given = wanted.schedule.milestones
    marks = tuple(max(1, round(m * wanted.epochs)) if m < 1 else m for m in given)
    schedule = wanted.schedule.model_copy(update={"milestones": marks})
    return wanted.model_copy(update={"schedule": schedule})


def _memory(
    method: Method, name: str, config: Config, given: Mapping[str, Any], lenient: bool
) -> sections.Memory:
    if not method.memories:
        if given.get("rows", bool(given)) and not lenient:
            raise ConfigError(f"memory: method {name!r} keeps no memory; leave it out")
        return sections.Memory(rows=0)
    suggested = {"policy": method.memories[0], "draw": config.training.batch_size}
    missing = {k: v for k, v in suggested.items() if k not in given}
    memory = config.memory.model_copy(update=missing)
    if memory.rows < 1:
        raise ConfigError(f"memory.rows: method {name!r} needs at least 1, not {memory.rows}")
    if memory.policy not in method.memories:
        problem = unknown(f"policy for {name!r}", memory.policy, method.memories)
        raise ConfigError(f"memory.policy: {problem}")
    return memory


def _compute(wanted: sections.Compute, here: bool) -> sections.Compute:
    if not here and wanted.device != "auto":
        return wanted
    usable = devices()
    device = usable[0] if wanted.device == "auto" else wanted.device
    if device not in usable:
        only = ", ".join(usable)
        raise DeviceError(f"compute.device: {device!r} was asked for, but there is only {only}")
    if device == "cpu" and wanted.precision == "bf16" and not native_bf16():
        raise ConfigError(
            "compute.precision: this CPU has no bf16 arithmetic, and emulating it makes training 8 "
            "to 19 times slower; use 'fp32'"
        )
    return wanted.model_copy(update={"device": device})


def devices() -> list[str]:
    """Return the devices of this machine, the fastest first."""
    import torch

    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    return [*(name for name, present in there.items() if present), "cpu"]


def native_bf16() -> bool:
    """Return whether this CPU multiplies in bf16; True if unknown."""
    try:
        words = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    except OSError:
        return True
    return bool(words & {"avx512_bf16", "amx_bf16", "bf16"})  # flags of x86, and the last of Arm

"""Resolve a config: fill in every value that the user left open. No data is opened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .custom import is_reference, name_of, offered_by_package
from .errors import ConfigError, DeviceError, unknown
from .settings import sections
from .settings.catalogue import PRESETS
from .settings.config import Config
from .settings.layers import merged
from .settings.signature import complete, validate

if TYPE_CHECKING:
    from .learning.method import Method
    from .methods import Parts
    from .nets.backbones import Reads

ADAMW_LR = 0.001  # torch's; what scenarios and methods suggest is for SGD


def resolve(
    config: Config,
    *,
    lenient: bool = False,
    here: bool = True,
    usual: Mapping[str, Any] | None = None,
) -> Config:
    """Return the config with every value that decides the run filled in.

    What the user gave comes first, then the preset, what the scenario suggests, what the method
    does, and last the sections' defaults. `lenient` drops what does not concern the method (memory
    settings where it keeps none, options of other parts), which otherwise is refused: a grid gives
    one set of settings to many methods. The device is checked only if the run is to happen `here`.
    `usual` suggests in the scenario's place.
    """
    from .data.registry import source
    from .methods import parts
    from .nets import backbones

    named = parts(config.method, config.custom, config.objects)
    given = config.model_dump(exclude_unset=True) | {"method": named.name}
    preset = dict(PRESETS[config.preset]) if config.preset else {}
    chosen = _options(named, preset.pop("options", {}), given.pop("options", {}), lenient)
    method = named.assemble(chosen)
    found = source(config.scenario.name)
    suggested = _suggested(method, found.suggests if usual is None else usual)
    resolved = validate(Config, merged(suggested, preset, given, {"options": chosen}))
    if resolved.evaluation.rule == "logits":
        _check_rule(named.name, method, named.without_terms(chosen))
    scenario, net = resolved.scenario, resolved.net
    options = complete(found.load, scenario.options, "scenario", sections.Scenario.beside_options())
    per_task = scenario.per_task or found.per_task
    body = backbones.find(net.name, config.custom, config.objects)
    if body.custom and body.name in named.custom:
        raise ConfigError(f"net.name: {body.name!r} is a part of the method too; rename one")
    net_options = body.options(body.fitting(method.net_options) | net.options)
    augment = _augment(scenario.augment, body.reads(net_options), frozen=net.train == ("head",))
    own = {"order_seed": scenario.order_seed, "subset_seed": scenario.subset_seed}
    seeds = {name: resolved.seed if seed == "seed" else seed for name, seed in own.items()}
    treated = {"options": options, "per_task": per_task, "augment": augment, **seeds}
    settled = {
        "method": named.name,
        "custom": {**named.custom, **({body.name: body.custom} if body.custom else {})},
        "training": _training(resolved.training, given.get("training", {})),
        "memory": _memory(method, next(iter(named.recipes)), resolved, given, lenient),
        "net": _net(net, body.name, net_options),
        "scenario": scenario.model_copy(update=treated),
        "compute": _compute(resolved.compute, here),
    }
    return resolved.model_copy(update=settled).with_objects(config.objects)


def _check_rule(name: str, method: Method, alone: Method) -> None:
    """A term that only changes predictions would do nothing, and nobody would notice."""
    if method.predictor is not alone.predictor:
        raise ConfigError(
            f"evaluation.rule: 'logits' leaves out how {name!r} predicts; set "
            "evaluation.rule=method (the preset authors has 'logits')"
        )


def _net(wanted: sections.Net, name: str, options: dict[str, Any]) -> sections.Net:
    """Name the net, and the file it starts from together with its digest."""
    settled: dict[str, Any] = {"name": name, "options": options}
    if wanted.weights is not None:
        from .nets import weights

        path = str(Path(wanted.weights).expanduser().absolute())
        digest = wanted.weights_digest or weights.digest(path)
        settled |= {"weights": path, "weights_digest": digest}
    elif wanted.weights_digest is not None:
        raise ConfigError("net.weights_digest: names no file; give net.weights too")
    return wanted.model_copy(update=settled)


def _augment(
    wanted: sections.Augmentation | None, net: Reads | None, *, frozen: bool
) -> sections.Augmentation | None:
    """Give a pretrained net images like those it was trained on, unless the user wants others.

    Those for a frozen backbone are not varied, so that they need to pass it only once.
    """
    usual = {"crop": 0, "flip": False} if frozen else {}
    if net is not None:
        usual |= net._asdict()
    if not usual:
        return wanted
    given = wanted.model_dump(exclude_none=True) if wanted else {}
    return sections.Augmentation.model_validate(usual | given)


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
    named: Parts, preset: Mapping[str, Any], given: Mapping[str, Any], lenient: bool
) -> dict[str, dict[str, Any]]:
    if not lenient:
        _check_parts(named, given)
    layers = merged(preset, given)
    return {p: complete(recipe, layers.get(p, {}), p) for p, recipe in named.recipes.items()}


def check_options(config: Config) -> None:
    """Refuse options of a part that the method does not have."""
    from .methods import parts

    _check_parts(parts(config.method, config.custom, config.objects), config.options)


def _check_parts(named: Parts, given: Iterable[str]) -> None:
    for part in given:
        if part not in named.recipes:
            raise ConfigError(f"{part}: is not part of the method {named.name!r}")


def _training(wanted: sections.Training, given: Mapping[str, Any]) -> sections.Training:
    """Turn milestones that are shares of the epochs into epochs; what SGD wants is not AdamW's."""
    if wanted.optimizer == "adamw":
        if given.get("momentum"):
            raise ConfigError("training.momentum: AdamW has its own; leave it out")
        lr = given.get("lr", ADAMW_LR)
        wanted = wanted.model_copy(update={"momentum": 0.0, "lr": lr})
    shares = wanted.schedule.milestones
    marks = tuple(max(1, round(m * wanted.epochs)) if m < 1 else m for m in shares)
    schedule = wanted.schedule.model_copy(update={"milestones": marks})
    return wanted.model_copy(update={"schedule": schedule})


def _memory(
    method: Method, name: str, config: Config, settings: Mapping[str, Any], lenient: bool
) -> sections.Memory:
    given = settings.get("memory", {})
    if not method.memories:
        if given.get("size", bool(given)) and not lenient:
            raise ConfigError(f"memory: method {name!r} keeps no memory; leave it out")
        return sections.Memory(size=0)
    suggested = {"policy": method.memories[0], "replay_batch_size": config.training.batch_size}
    missing = {k: v for k, v in suggested.items() if k not in given}
    memory = config.memory.model_copy(update=missing)
    if memory.size < 1:
        raise ConfigError(f"memory.size: method {name!r} needs at least 1, not {memory.size}")
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
    return bool(words & {"avx512_bf16", "amx_bf16", "bf16"})  # two flags of x86, and one of Arm


def trusted(config: Config, files: Sequence[str], what: str) -> dict[str, sections.Custom]:
    """The config's own parts, in files that the user names; code that nobody named is refused."""
    found: dict[str, sections.Custom] = {}
    unasked = [p for p in (*config.method.split("+"), config.net.name) if is_reference(p)]
    for name, part in config.custom.items():
        place = part.source.rpartition(":")[0]
        same = [one for one in files if one == place or Path(one).name == Path(place).name]
        if same:
            source = f"{same[0]}:{name_of(part.source)}"
            found[name] = part.model_copy(update={"source": source})
        elif offered_by_package(part.source):
            found[name] = part
        else:
            unasked.append(part.source)
    if unasked:
        raise ConfigError(
            f"{what}: it uses custom code, {unasked[0]}, which is not executed without your "
            "consent; name the file with --custom if you trust it"
        )
    return found


def without_weights(net: sections.Net) -> sections.Net:
    """The net without what it started from, for one whose weights are loaded afterwards."""
    options = net.options | ({"pretrained": False} if "pretrained" in net.options else {})
    return net.model_copy(update={"weights": None, "weights_digest": None, "options": options})

"""Everything that can be chosen by name: methods, add-ons, networks and scenarios.

Lists, completion, titles in tables, colours in figures and the pages about methods are made from
it without importing torch: a recipe is imported when it is first needed.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """What linsep knows about a name before anything is imported."""

    title: str  # in tables and figures
    line: str  # in lists
    place: str = ""  # of its recipe: a module below linsep, and the function
    source: str = "-"  # who proposed it
    # Images through the nets, as a multiple of fine-tuning's; of an add-on, what it adds to ER. For
    # Split CIFAR-10 with 50 epochs and 200 stored images, as tests/cli/test_costs.py counts them.
    compute: float = 0.0
    look: tuple[str, str] = ("", "")  # the colour and the marker of a method in figures
    page: str = ""  # in docs/methods, if it is not the one that has its name

    @property
    def recipe(self) -> Callable[..., Any]:
        """The function that makes it; its keyword arguments are its options."""
        module, _, function = self.place.partition(":")
        made: Callable[..., Any] = getattr(import_module(f"linsep.{module}"), function)
        return made


METHODS: dict[str, Entry] = {
    "ft": Entry("FT", "fine-tuning: plain SGD on each new task; the lower bound",
        "methods.baselines:ft", compute=1.0, look=("grey", "o")),
    "jt": Entry("JT", "joint training on all data; the upper bound", "methods.baselines:jt",
        compute=1.0, look=("ink", "D")),
    "er": Entry("ER", "experience replay of stored images and labels", "methods.replay:er",
        "Riemer et al., 2019", 2.0, ("orange", "o")),
    "der": Entry("DER", "replay of stored images with their logits", "methods.replay:der",
        "Buzzega et al., 2020", 2.0, ("green", "o")),
    "derpp": Entry("DER++", "DER++: replay of labels and of logits", "methods.replay:derpp",
        "Buzzega et al., 2020", 3.0, ("blue", "o")),
    "er_ace": Entry("ER-ACE", "replay; new data ignore absent old classes", "methods.replay:er_ace",
        "Caccia et al., 2022", 1.8, ("sky", "o")),
    "icarl": Entry("iCaRL", "exemplars by herding, nearest-mean prediction",
        "methods.distillation:icarl", "Rebuffi et al., 2017", 1.29, ("green", "P")),
    "fdr": Entry("FDR", "outputs on stored samples stay what they were", "methods.replay:fdr",
        "Benjamin et al., 2019", 1.8, ("red", "P")),
    "lucir": Entry("LUCIR", "cosine head, kept directions, margins", "methods.lucir:lucir",
        "Hou et al., 2019", 1.3, ("blue", "P")),
    "bic": Entry("BiC", "distillation, then a bias correction", "methods.distillation:bic",
        "Wu et al., 2019", 1.16, ("purple", "P")),
    "lwf": Entry("LwF", "distillation on new images, no memory", "methods.distillation:lwf",
        "Li and Hoiem, 2016", 1.27, ("grey", "P")),
    "ewc": Entry("EWC", "online EWC: weights held by Fisher information", "methods.penalties:ewc",
        "Schwarz et al., 2018", 1.0, ("orange", "P")),
    "si": Entry("SI", "weights held by their part in past learning", "methods.penalties:si",
        "Zenke et al., 2017", 1.0, ("sky", "P")),
    "agem": Entry("A-GEM", "gradients projected against a stored reference", "methods.replay:agem",
        "Chaudhry et al., 2019", 1.8, ("blue", "X")),
    "gdumb": Entry("GDumb", "a new net trained on the memory alone", "methods.baselines:gdumb",
        "Prabhu et al., 2020", 0.03, ("ink", "P")),
}  # fmt: skip

ADDONS: dict[str, Entry] = {
    "bfp": Entry("BFP", "a linear map recovers the old features", "methods.backward:bfp",
        "Gu et al., 2023", 1.34),
    "bfp2": Entry("BFP-2", "the same with a two-layer map", "methods.backward:bfp2",
        "Gu et al., 2023", 1.34, page="bfp"),
    "fd": Entry("FD", "distillation: the map is the identity", "methods.backward:fd",
        "Gu et al., 2023", 1.34, page="bfp"),
    "ser": Entry("SER", "the previous net's logits on new images", "methods.added_losses:ser",
        "Zhuo et al., 2023", 0.27),
    "lode": Entry("LODE", "new against old classes weighs less", "methods.added_losses:lode",
        "Liang and Li, 2023", 0.0),
    "star": Entry("STAR", "replayed outputs hold if weights move", "methods.added_losses:star",
        "Eskandar et al., 2025", 2.34),
    "ema": Entry("EMA", "averaged weights predict", "methods.prediction:ema",
        "Soutif-Cormerais et al., 2023", 0.0),
    "wa": Entry("WA", "new rows of the head as long as old ones", "methods.prediction:wa",
        "Zhao et al., 2020", 0.0),
    "refit": Entry("Refit", "a head re-trained on stored samples predicts",
        "methods.prediction:refit", "Kang et al., 2020", 0.0),
    "transport": Entry("Transport", "carried class statistics predict",
        "methods.prediction:transport", "Hayes and Kanan, 2020", 0.01),
    "ranpac": Entry("RanPAC", "ridge regression on expanded features predicts",
        "methods.prediction:ranpac", "McDonnell et al., 2023", 0.01, page="acil"),
    "acil": Entry("ACIL", "the same with one ridge for all tasks", "methods.prediction:acil",
        "Zhuang et al., 2022", 0.01),
}  # fmt: skip

NETS: dict[str, Entry] = {
    "cnn": Entry(
        "CNN", "three strided, normalised convolutions, for 28x28 and smaller", "nets.net:cnn"
    ),
    "mlp": Entry("MLP", "two hidden layers, for the smallest images", "nets.net:mlp"),
    "resnet18": Entry(
        "ResNet-18", "ResNet-18 with a width; 64 is the paper's", "nets.net:resnet18"
    ),
    "efficientnet_lite0": Entry(
        "EfficientNet-Lite0",
        "for photographs: 1280 features, trained on ImageNet at 224x224",
        "nets.efficientnet:efficientnet_lite0",
    ),
    "efficientnet_lite1": Entry(
        "EfficientNet-Lite1",
        "deeper than Lite0, trained on ImageNet at 240x240",
        "nets.efficientnet:efficientnet_lite1",
    ),
    "efficientnet_lite2": Entry(
        "EfficientNet-Lite2",
        "deeper and wider than Lite0, trained on ImageNet at 260x260",
        "nets.efficientnet:efficientnet_lite2",
    ),
}
LIBRARIES = ("timm", "torchvision")  # of which any model can be chosen: timm/vit_tiny_patch16_224


SCENARIOS: dict[str, Entry] = {
    "fashion-mini": Entry("fashion-mini",
        "Fashion-MNIST, 500 + 100 images of each class, embedded: 5 tasks of 2 classes, 28x28"),
    "split-cifar10": Entry("Split CIFAR-10", "CIFAR-10: 5 tasks of 2 classes, 32x32"),
    "split-cifar100": Entry("Split CIFAR-100", "CIFAR-100: 10 tasks of 10 classes, 32x32"),
    "split-tinyimagenet": Entry("Split TinyImageNet",
        "TinyImageNet: 10 tasks of 20 classes, 64x64"),
    "split-imagenet100": Entry("Split ImageNet-100",
        "ImageNet-100: 10 tasks of 10 classes, 224x224"),
    "split-mnist": Entry("Split MNIST", "MNIST: 5 tasks of 2 classes, 28x28 grey"),
    "split-fashion-mnist": Entry("Split Fashion-MNIST",
        "Fashion-MNIST: 5 tasks of 2 classes, 28x28 grey"),
    "grocery": Entry("Grocery Store",
        "photographs of groceries: 9 tasks of 9 products, 224x224"),
    "folder": Entry("folder", "your images, in folders named after their classes"),
    "table": Entry("table", "your images, in a CSV of file, label and perhaps task"),
    "arrays": Entry("arrays", "your arrays: an .npz file, or a folder of .npy files"),
    "huggingface": Entry("huggingface", "a Hugging Face data set that save_to_disk wrote"),
    "code": Entry("code", "the torch Dataset that a function of yours returns"),
    "blobs": Entry("blobs", "synthetic noisy pictures, for tests: 5 tasks of 2 classes, 8x8"),
}  # fmt: skip


# --- presets: the choices of the paper's text, of its authors' program, and a faster form --------
# docs/fidelity.md explains each; the D-numbers are its.

_TEXT_REPLAY = {"first_task": False}  # D3: "if t > 1"
_TEXT_LOGITS = {"target": "stored", "distance": "squared"}  # D4, D11
_TEXT_FEATURES = {"on": "both", "scale": "none"}  # eq. 11 (D2), D1
_PROGRAM_REPLAY = {"first_task": True}
_PROGRAM_LOGITS = {"target": "previous_net", "distance": "mse"}
_PROGRAM_FEATURES = {"on": "both", "scale": "root_d"}
_PROGRAM_OPTIONS = {
    "jt": {"data": "all"},
    "er": _PROGRAM_REPLAY,
    **dict.fromkeys(("der", "derpp"), _PROGRAM_REPLAY | _PROGRAM_LOGITS),
    "fdr": {"update": "two_steps"},  # D15
    "bic": {
        "share": "one_over_tasks",
        "kd_scale": "t_squared",
        "bias_lr": 1e-3,
        "bias_penalty": 0.0,
    },
    "icarl": {"herd_by": "feature"},
    "lucir": {
        "ce_among": "all",
        "rivals": "not_old",
        "fit_by": "all",
        "fit_rows": "newest",
        "herd_by": "feature",
        "last_relu": True,
    },
    **dict.fromkeys(("bfp", "bfp2", "fd"), _PROGRAM_FEATURES),
}

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": {
        "memory": {"evict": "one_largest", "replay_batches": "fresh"},  # D9
        "training": {"bn_updates": "all"},
        "evaluation": {"mask_unseen": True, "rule": "method"},
        "options": {
            "jt": {"data": "all"},
            "er": _TEXT_REPLAY,
            **dict.fromkeys(("der", "derpp"), _TEXT_REPLAY | _TEXT_LOGITS),
            "bic": {"bias_lr": 1e-3},
            **dict.fromkeys(("bfp", "bfp2", "fd"), _TEXT_FEATURES),
        },
    },
    "authors": {
        "memory": {"evict": "all_largest", "replay_batches": "fresh"},
        "training": {"bn_updates": "all"},
        "evaluation": {"mask_unseen": False, "rule": "logits"},  # D12
        "options": _PROGRAM_OPTIONS,
    },
    # Ours: all terms share one replay batch, which is too few for BatchNorm's running statistics.
    "fast": {
        "memory": {"evict": "all_largest", "replay_batches": "shared"},
        "training": {"bn_updates": "all"},
        "evaluation": {"mask_unseen": True, "rule": "method", "batchnorm": "recalibrated"},
        "options": _PROGRAM_OPTIONS,
    },
}


def title(method: str) -> str:
    """'derpp+bfp' -> 'DER++ + BFP'; what is not in the catalogue goes by its own name."""
    known = METHODS | ADDONS
    base, *terms = (known[part].title if part in known else part for part in method.split("+"))
    return " + ".join([base, *terms])

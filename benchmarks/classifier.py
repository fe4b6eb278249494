"""Measure the classifier on real CIFAR-10: accuracy, calibration, novelty, cost.

    python -m benchmarks.classifier DATA [--seeds 3] [--method derpp+bfp+refit] [--epochs 20]

Five calls of two classes, 100 training images each, ResNet-18 of width 8, against a plain
fine-tuning loop and against retraining on everything; all 10 000 test images. Prints one line of
JSON for each seed, and the means at the end; cost and size are measured with the first seed.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from safetensors.torch import save as safetensors_bytes
from sklearn.metrics import roc_auc_score

from linsep import IncrementalClassifier
from linsep.classifier.account import calibration_error, probabilities
from linsep.data.images import Images
from linsep.data.scenarios import load
from linsep.randomness import Randomness
from linsep.settings.sections import Scenario

from .timing import least

PER_CLASS, PER_CALL, WIDTH = 100, 2, 8
PROTOCOLS = {"net": {"options": {"width": WIDTH}}}


def main() -> None:
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--method", default="derpp+bfp+refit")
    parser.add_argument("--memory", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--lr", type=float, help="by default as the method suggests")
    given = parser.parse_args()
    data = load(Scenario(name="split-cifar10", data=str(given.data)))
    found = []
    for seed in range(given.first, given.first + given.seeds):
        found.append(measured(data.train, data.test, seed, given))
        print(json.dumps({"seed": seed} | found[-1]), flush=True)
    everywhere = [k for k in found[0] if all(k in f for f in found)]
    means = {k: round(float(np.mean([f[k] for f in found])), 4) for k in everywhere}
    print(json.dumps({"mean over seeds": means}, indent=1))


def measured(train: Images, test: Images, seed: int, given: argparse.Namespace) -> dict[str, float]:
    some = few(train, seed)
    calls = [some.select(range(c, c + PER_CALL)) for c in range(0, 10, PER_CALL)]
    clf = classifier(given.method, seed, given)
    told: dict[str, float] = {}
    novelty: dict[str, list[float]] = {"energy": [], "distance": []}
    for call in calls:
        clf.partial_fit(call.pixels().numpy(), call.y.numpy())
        known = len(clf.classes_)
        if known < 10:
            parts = [test.select(range(known)), test.select(range(known, 10))]
            for by, values in novelty.items():
                strange = [clf.novelty(part.pixels(), by=by) for part in parts]
                truth = np.repeat([0, 1], list(map(len, strange)))
                values.append(float(roc_auc_score(truth, np.concatenate(strange))))
    told["accuracy"] = clf.score(test.pixels(), test.y.numpy())
    for by, values in novelty.items():
        told |= {f"auroc {by}": float(np.mean(values))}
        told |= {f"auroc {by}, {2 * k + 2} classes": v for k, v in enumerate(values)}
    told |= calibration(clf, test)
    told["fine-tuning loop"] = fine_tuned(clf, calls, test, seed, given.epochs)
    again = classifier("ft", seed, given).fit(some.pixels().numpy(), some.y.numpy())
    told["retrained on everything"] = again.score(test.pixels(), test.y.numpy())
    return told | (costs(clf, test) if seed == given.first else {})


def few(train: Images, seed: int) -> Images:
    rng = Randomness(seed).at("measured rows")
    rows = [rng.permutation((train.y == c).nonzero()[:, 0].numpy())[:PER_CLASS] for c in range(10)]
    return train.take(torch.from_numpy(np.concatenate(rows)))


def classifier(method: str, seed: int, given: argparse.Namespace) -> IncrementalClassifier:
    return IncrementalClassifier(
        method, "resnet18", memory=given.memory, epochs=given.epochs, settings=PROTOCOLS,
        random_state=seed, device="cpu", lr=given.lr,
    )  # fmt: skip


def calibration(clf: IncrementalClassifier, test: Images) -> dict[str, float]:
    learner = clf.course_.learner
    assert learner is not None
    scores = learner.predict(test)
    before, after = (
        calibration_error(probabilities(scores, t), test.y) for t in (1.0, clf.temperature_)
    )
    assert before is not None
    assert after is not None
    return {"ece before": before, "ece after": after, "temperature": clf.temperature_}


def fine_tuned(
    clf: IncrementalClassifier, calls: list[Images], test: Images, seed: int, epochs: int
) -> float:
    """A plain loop over the same images with the same augmentation and rates, and no linsep in it
    but the net.
    """
    from linsep.nets.heads import LinearHead
    from linsep.nets.net import Net, resnet18

    torch.manual_seed(seed)
    augment, training = clf.course_.augment, clf.course_.config.training
    net = Net(resnet18((3, 32, 32), width=WIDTH), LinearHead(8 * WIDTH, 10))
    rng = np.random.default_rng(seed)
    for call in calls:
        optimizer = torch.optim.SGD(net.parameters(), training.lr, training.momentum)
        marks = [int(mark) for mark in training.schedule.milestones]
        later = torch.optim.lr_scheduler.MultiStepLR(optimizer, marks)
        raw = call.pixels()
        for _ in range(epochs):
            for rows in torch.randperm(len(raw)).split(training.batch_size):
                loss = F.cross_entropy(net(augment.train(raw[rows], rng)).logits, call.y[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            later.step()
    net.eval()
    with torch.no_grad():
        parts = [net(augment.eval(part.pixels())).logits.argmax(1) for part in test.chunks(500)]
    return float((torch.cat(parts) == test.y).double().mean())


def costs(clf: IncrementalClassifier, test: Images) -> dict[str, float]:
    """CPU time of predicting the test images, as a ratio to the bare net's on the same chunks."""
    learner = clf.course_.learner
    assert learner is not None
    net, augment, chunk = learner.net, learner.augment, learner.evaluation.chunk
    raw = test.pixels()
    array: NDArray[np.uint8] = raw.permute(0, 2, 3, 1).contiguous().numpy()
    laid_out: Any = torch.channels_last if learner.channels_last else torch.contiguous_format
    floats = [augment.eval(p).contiguous(memory_format=laid_out) for p in raw.split(chunk)]

    def bare() -> None:
        with torch.no_grad():
            for part in floats:
                net(part)

    def bytes_to_net() -> None:
        with torch.no_grad():
            for part in raw.split(chunk):
                net(augment.eval(part).contiguous(memory_format=laid_out))

    times = least(bare, bytes_to_net, lambda: clf.predict(array), rounds=5)
    told = {
        "predict / bare net": times[2].cpu / times[0].cpu,
        "predict / net from bytes": times[2].cpu / times[1].cpu,
        "seconds for 10 000": times[2].cpu,
    }
    weights = len(safetensors_bytes({k: v.contiguous() for k, v in net.state_dict().items()}))
    with tempfile.TemporaryDirectory() as folder:
        clf.save(folder, memory=False)
        size = sum(path.stat().st_size for path in Path(folder).iterdir() if path.is_file())
        told["saved without memory / weights"] = size / weights
    try:
        import onnxruntime
    except ImportError:
        return told
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        clf.export(path)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(path, options)
        p = np.concatenate([session.run(None, {"images": a})[0] for a in np.split(array, 20)])
        told["onnx: largest difference"] = float(np.abs(p - clf.predict_proba(array)).max())
        told["onnx: bytes / weights"] = path.stat().st_size / weights
    return told


if __name__ == "__main__":
    main()

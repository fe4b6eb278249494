"""TinyImageNet and ImageNet-100, from folders of photographs by class.

TinyImageNet's official validation images are its test set, as the official test images have no
labels. They come with val_annotations.txt, or as people sort them: val/<class>/images.

ImageNet-100 is the list that class-incremental work uses: ImageNet's 1000 classes in the order of
their ids, shuffled by numpy's legacy generator with the seed 1993, the first hundred in that order,
which is their natural order here. Images are kept at 256x256 and read at 224x224.
"""

from os import PathLike
from pathlib import Path

from ...errors import DataError
from ..images import Dataset
from .cache import File, Listing, Treatment, labelled, prepared
from .published import Limits, Progress, Published, Remote
from .reading import images_below, reading

URL = "https://cs231n.stanford.edu/tiny-imagenet-200.zip"
TINYIMAGENET = Published(
    "tinyimagenet",
    ("tiny-imagenet-200", "."),
    ("wnids.txt", "train", "val"),
    (Remote(URL, "90528d7ca1a48142e341f4ef8d21d0de", 248_100_043),),
    Limits(files=150_000, bytes=2_000_000_000),
)


def tinyimagenet(root: str | PathLike[str], progress: Progress | None = None) -> Dataset:
    """110 000 photographs of 200 things, 64x64: 500 for training and 50 for testing of each."""
    return prepared(list_tinyimagenet(root), Treatment(), progress)


def list_tinyimagenet(root: str | PathLike[str], classes: int = 200) -> Listing:
    """List the images of either layout."""
    folder = TINYIMAGENET.find(root)
    ids = _ids(folder, classes)
    names = _words(folder / "words.txt", ids)
    train = labelled(folder / "train" / wnid for wnid in ids)
    return Listing("tinyimagenet", folder, names, train, _test(folder, ids))


def _lines(path: Path) -> list[str]:
    with reading(path):
        return [line for line in path.read_text("utf-8").splitlines() if line.strip()]


def _ids(folder: Path, classes: int) -> list[str]:
    """Return the class ids in sorted order, which is the natural order of this data set."""
    ids = [line.strip() for line in _lines(folder / "wnids.txt")]
    if len(set(ids)) != len(ids) or len(ids) != classes:
        raise DataError(f"{folder / 'wnids.txt'} has {len(ids)} lines; should be {classes} classes")
    return sorted(ids)


def _words(path: Path, ids: list[str]) -> tuple[str, ...]:
    words = dict(line.split("\t", 1) for line in _lines(path) if "\t" in line)
    return tuple(words.get(wnid, wnid).split(",")[0].strip() for wnid in ids)


def _test(folder: Path, ids: list[str]) -> tuple[File, ...]:
    place = {wnid: label for label, wnid in enumerate(ids)}
    notes = folder / "val" / "val_annotations.txt"
    if not notes.exists():
        if by_class := labelled(folder / "val" / wnid for wnid in ids):
            return by_class
        raise DataError(f"{notes} is missing: the labels of the validation images")
    labels: dict[str, int] = {}
    for number, line in enumerate(_lines(notes), 1):
        name, _, rest = line.partition("\t")
        wnid = rest.partition("\t")[0]
        if wnid not in place:
            raise DataError(f"{notes}, line {number}: {wnid!r} is not a class of wnids.txt")
        if name in labels:
            raise DataError(f"{notes}, line {number}: {name!r} has a label already")
        labels[name] = place[wnid]
    found = images_below(folder / "val" / "images")
    there = {path.name for path in found}
    if gone := sorted(labels.keys() - there):
        raise DataError(f"{folder / 'val' / 'images' / gone[0]} is missing; {notes.name} labels it")
    if more := sorted(there - labels.keys()):
        raise DataError(f"{folder / 'val' / 'images' / more[0]} has no label in {notes.name}")
    return tuple(File(path, labels[path.name]) for path in found)


CLASSES = (
    "n01729322", "n01514668", "n04550184", "n03109150", "n01990800", "n02363005", "n12267677",
    "n01531178", "n02123597", "n03016953", "n02011460", "n04153751", "n02096177", "n09468604",
    "n03657121", "n02101388", "n02107908", "n03290653", "n02107574", "n02786058", "n02115913",
    "n01914609", "n07614500", "n04428191", "n03017168", "n04355933", "n02951585", "n03759954",
    "n01806567", "n02112706", "n03085013", "n03485407", "n02526121", "n02091467", "n03710193",
    "n02128385", "n03775071", "n02102318", "n04604644", "n02033041", "n04409515", "n02088094",
    "n03891332", "n02128757", "n01984695", "n02279972", "n03532672", "n03250847", "n15075141",
    "n03697007", "n02536864", "n04074963", "n03000247", "n04371430", "n02002556", "n04399382",
    "n03785016", "n12768682", "n03527444", "n03942813", "n04026417", "n01537544", "n01775062",
    "n02814860", "n02640242", "n04442312", "n02120079", "n03223299", "n01774384", "n02917067",
    "n04525305", "n02229544", "n02168699", "n01744401", "n07892512", "n02749479", "n07831146",
    "n04152593", "n03089624", "n02669723", "n02950826", "n03691459", "n02116738", "n03967562",
    "n01882714", "n03141823", "n02105056", "n02094258", "n02971356", "n03075370", "n02948072",
    "n04591157", "n03884397", "n12620546", "n02280649", "n04266014", "n02112137", "n04599235",
    "n02840245", "n01689811",
)  # fmt: skip
IMAGENET100 = Published(
    "imagenet100",
    (".", "imagenet100", "imagenet", "ILSVRC/Data/CLS-LOC"),
    tuple(f"{part}/{wnid}" for part in ("train", "val") for wnid in CLASSES),
)


def imagenet100(root: str | PathLike[str], progress: Progress | None = None) -> Dataset:
    """About 130 000 photographs of 100 things, 256x256: 1300 and 50 of most."""
    folder = IMAGENET100.find(root)
    parts = (labelled(folder / part / wnid for wnid in CLASSES) for part in ("train", "val"))
    listing = Listing("imagenet100", folder, CLASSES, *parts)
    return prepared(listing, Treatment(side=256), progress)

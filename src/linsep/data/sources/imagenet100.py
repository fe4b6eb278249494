"""ImageNet-100: one hundred classes of ImageNet, from its train and val folders by class.

The list is the one that class-incremental work uses: ImageNet's 1000 classes in the order of their
ids, shuffled by numpy's legacy generator with the seed 1993, the first hundred in that order. Their
natural order here is the list's. Images are kept at 256x256 and read at 224x224.
"""

from os import PathLike

from ..images import Dataset
from .cache import Listing, Progress, Treatment, prepared
from .folder import labelled
from .published import Published

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

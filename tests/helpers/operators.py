"""How a script begins that imports torchvision, or what needs it, beside the CPU build of torch.

In a process of its own: the operators that torchvision misses there must be known before it is
first imported, and a half-imported torchvision cannot be imported twice.
"""

OPERATORS = """
import warnings
warnings.simplefilter("ignore")
import torch
torch.set_num_threads(1)
lib = torch.library.Library("torchvision", "DEF")
for schema in (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
):
    try:
        lib.define(schema)
    except RuntimeError:
        pass
"""

"""What methods and add-ons cost at the size of the paper's Split CIFAR-10, for `linsep list`.

The figures are counted: tests/cli/test_costs.py counts them again, and names the figure of a part
that is missing here.
"""

MEANING = (
    "1.00x is fine-tuning: images through the nets, over a run of Split CIFAR-10 with 50 epochs "
    "and 200 stored images"
)
METHODS = {
    "ft": 1.0, "jt": 1.0, "er": 2.0, "der": 2.0, "derpp": 3.0, "er_ace": 1.8, "icarl": 1.29,
    "fdr": 1.8, "lucir": 1.3, "bic": 1.16, "lwf": 1.27, "ewc": 1.0, "si": 1.0, "agem": 1.8,
    "gdumb": 0.03,
}  # fmt: skip
ADDED = {  # to ER
    "bfp": 1.34, "bfp2": 1.34, "fd": 1.34, "ser": 0.27, "lode": 0.0, "star": 2.34, "ema": 0.0,
    "wa": 0.0, "refit": 0.0, "transport": 0.01,
}  # fmt: skip


def of_method(name: str) -> str:
    """'3.00x'."""
    return f"{METHODS[name]:.2f}x"


def of_term(name: str) -> str:
    """'+1.34x': what it adds to ER."""
    return f"{ADDED[name]:+.2f}x"

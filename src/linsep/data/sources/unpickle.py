"""Reading other people's pickles without running them.

A pickle is a program. This one may build numbers, strings, lists, tuples, dicts and plain numeric
arrays; whatever else it asks for is refused by name. Even numpy is never called by it: stand-ins
collect the pieces of an array, and the array is made here after they were checked.
"""

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError
from .reading import reading

LARGEST = 1 << 30  # bytes of a pickle file; CIFAR-100's is 155 million
KINDS = ("b1", "u1", "i1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")


def load_arrays(path: Path, largest: int = LARGEST) -> dict[str, Any]:
    """Read the dict in a pickle file: numpy arrays, keys as str, other values as they are."""
    with reading(path, "is broken or not what it should be"):
        size = path.stat().st_size
        if size > largest:
            raise DataError(f"{path} has {size} bytes; a file of this set has at most {largest}")
        with path.open("rb") as file:
            found = _Restricted(file, encoding="bytes").load()
        if not isinstance(found, dict):
            raise DataError(f"{path} holds a {type(found).__name__}; expected a dict of arrays")
        plain = (v.array() if isinstance(v, _Array) else v for v in found.values())
        return dict(zip(map(_text, found), plain, strict=True))


def _text(found: object) -> str:
    return found.decode("latin1") if isinstance(found, bytes) else str(found)


class _Restricted(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return ALLOWED[module.replace("numpy._core", "numpy.core"), name]
        except KeyError:
            raise pickle.UnpicklingError(
                f"it asks for {module}.{name}, and only arrays and plain containers are allowed"
            ) from None


class _Kind:
    """Stands in for numpy.dtype."""

    def __init__(self, code: object, *_: object) -> None:
        self.code, self.order = _text(code), "<"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = ">" if _text(state[1]) == ">" else "<"

    def dtype(self) -> np.dtype[Any]:
        if self.code.lstrip("<>|=") not in KINDS:
            raise ValueError(f"values of type {self.code!r}; expected plain numbers")
        return np.dtype(self.order + self.code.lstrip("<>|="))


class _Array:
    """Stands in for numpy.ndarray while its pieces arrive."""

    def __init__(self, *_: object) -> None:
        self.state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def array(self) -> NDArray[Any]:
        if len(self.state) != 5:
            raise ValueError("its pieces are missing")
        _, shape, kind, columns_first, raw = self.state
        if not isinstance(kind, _Kind) or not isinstance(raw, bytes | bytearray):
            raise ValueError("its values are not plain bytes")
        if not all(isinstance(n, int) and n >= 0 for n in shape):
            raise ValueError(f"its shape is {shape!r}")
        if math.prod(shape) * kind.dtype().itemsize != len(raw):
            raise ValueError(f"{len(raw)} bytes do not fill the shape {tuple(shape)}")
        flat = np.frombuffer(raw, kind.dtype())
        return flat.reshape(shape, order="F" if columns_first else "C")


def _frombuffer(raw: bytes, kind: _Kind, shape: tuple[int, ...], order: str = "C") -> _Array:
    made = _Array()
    made.state = (1, shape, kind, order == "F", raw)
    return made


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"text in the encoding {encoding!r}")
    return text.encode("latin1")


ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy.core.numeric", "_frombuffer"): _frombuffer,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Kind,
    ("_codecs", "encode"): _encode,  # how Python 3 writes bytes in an old protocol
}

"""Files that are either the old one or the new one, whole, whatever happens meanwhile.

Whatever is read is checked: its size, its digest, and its content against a schema. What does not
fit is a StateError that names the file and the field. Reading executes no code.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from ..errors import StateError
from ..settings.signature import problem

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")

STATE = "linsep state"
LARGEST = 64 * 2**20  # bytes of a file that is read whole, unless more is allowed
NO_LINK = getattr(os, "O_NOFOLLOW", 0)


@contextmanager
def reporting(problem: str) -> Iterator[None]:
    """Raise an OSError as a StateError: 'cannot read config.toml: Permission denied'."""
    try:
        yield
    except OSError as error:
        raise StateError(f"{problem}: {error.strerror or error}") from None


def read(path: Path, largest: int | None = LARGEST) -> bytes:
    """A file's content; StateError if it cannot be read, is too large, or is a pipe or a device."""
    with reporting(f"cannot read {path}"):
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise StateError(f"cannot read {path}: it is not a regular file")
        if largest is not None and found.st_size > largest:
            raise StateError(f"cannot read {path}: {found.st_size} bytes; at most {largest}")
        return path.read_bytes()


def unzipped(path: Path) -> bytes:
    """The content of a gzip file; StateError if it is damaged or unpacks to too much."""
    unpacking = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        content = unpacking.decompress(read(path), LARGEST)
    except zlib.error:
        raise StateError(f"{path} is damaged: it cannot be unpacked") from None
    if unpacking.unconsumed_tail:
        raise StateError(f"cannot read {path}: it unpacks to more than {LARGEST} bytes")
    if not unpacking.eof:
        raise StateError(f"{path} is damaged: its end is missing")
    return content


def digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def parsed(path: Path | str, content: bytes, schema: TypeAdapter[T]) -> T:
    """JSON that fits a schema; StateError names the file, the field and what was expected."""
    try:
        return schema.validate_json(content)
    except ValidationError as error:
        raise StateError(f"{path}: {problem(error)}") from None
    except StateError as error:
        raise StateError(f"{path}: {error}") from None


def tensor_bytes(tensors: Mapping[str, Any], metadata: dict[str, str] | None = None) -> bytes:
    """A safetensors file; tensors that share their values are written one by one."""
    from safetensors.torch import save

    return save(_separate(tensors), metadata)


def _separate(tensors: Mapping[str, Any]) -> dict[str, Tensor]:
    from torch import Tensor

    whole: dict[str, Tensor] = {}
    places: set[int] = set()
    for name, value in tensors.items():
        if not isinstance(value, Tensor):
            raise StateError(f"{name} is a {type(value).__name__}; only tensors can be saved")
        one = value.detach().cpu().contiguous()
        place = one.untyped_storage().data_ptr()
        whole[name] = one.clone() if place in places else one
        places.add(place)
    return whole


def tensors_in(content: bytes, path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return load(content)
    except (SafetensorError, ValueError, TypeError, KeyError, RuntimeError) as error:
        raise StateError(f"{path} is damaged: {error}") from None


def put(path: Path, content: bytes, at: int | None = None) -> None:
    """Write into a file at a place, or at its end; never through a symbolic link."""
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | NO_LINK, 0o666), "wb") as file:
            file.seek(0 if at is None else at, os.SEEK_END if at is None else os.SEEK_SET)
            file.write(content)
    except OSError as error:
        linked = error.errno == errno.ELOOP
        reason = "it is a symbolic link" if linked else error.strerror or error
        raise StateError(f"cannot write {path}: {reason}") from None


def write(path: Path, content: bytes, keep: Path | None = None) -> None:
    """Replace `path` in one step; the file that was there survives as `keep` if one is named."""
    if not path.name or path.is_dir():
        raise StateError(f"cannot write {path}: it is a folder; name a file")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if keep is not None and path.exists():
            path.replace(keep)
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        reason = f"{error.strerror or error}; what was saved before is intact"
        raise StateError(f"cannot write {path}: {reason}") from None


def link(path: Path, other: Path) -> None:
    """Give a whole file a second name, in place of any other file of that name."""
    other.unlink(missing_ok=True)
    try:
        os.link(path, other)
    except OSError:  # a disk without links
        write(other, read(path, largest=None))


def make_folder(path: Path) -> None:
    with reporting(f"cannot use {path}"):
        path.mkdir(exist_ok=True)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder last."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --- states: tensors, with everything else as JSON beside them ------------------------------------


def seal(state: Mapping[str, Any]) -> bytes:
    """A state as a safetensors file that knows whether it is whole.

    What is no tensor is its metadata, under one name: several would be written in any order.
    """
    tensors: dict[str, Any] = {}
    plain = _without_tensors(state, "state", tensors)
    whole = _separate(tensors)
    told = {"digest": _digest_of(plain, whole), "state": plain}
    return tensor_bytes(whole, {STATE: json.dumps(told)})


def unseal(path: Path) -> dict[str, Any]:
    """The state in a file; StateError if a bit of it is not what was written. Runs no code."""
    content = read(path, largest=None)
    try:
        size = int.from_bytes(content[:8], "little")
        told = json.loads(json.loads(content[8 : 8 + size])["__metadata__"][STATE])
        tensors = tensors_in(content, path)
        whole = _digest_of(told["state"], tensors) == told["digest"]
        state: dict[str, Any] = _with_tensors(told["state"], tensors)
    except (StateError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise StateError(f"{path} is damaged, or not a saved state") from None
    if not whole or not isinstance(state, dict):
        raise StateError(f"{path} is damaged: its checksum does not match")
    return state


def _without_tensors(value: Any, name: str, tensors: dict[str, Any]) -> Any:
    """JSON of a tree, whose tensors are put aside under their paths."""
    from torch import Tensor

    if isinstance(value, Tensor):
        while name in tensors:  # two paths may be spelled alike
            name += "'"
        tensors[name] = value
        return {"tensor": name}
    if isinstance(value, Mapping):
        inner = ((k, _without_tensors(v, f"{name}.{k}", tensors)) for k, v in value.items())
        return {"table": [list(pair) for pair in inner]}
    if isinstance(value, list | tuple):
        return [_without_tensors(v, f"{name}.{i}", tensors) for i, v in enumerate(value)]
    if value is not None and not isinstance(value, str | int | float):
        raise StateError(f"{name} is a {type(value).__name__}; it cannot be saved")
    return value


def _with_tensors(plain: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(plain, list):
        return [_with_tensors(inner, tensors) for inner in plain]
    if isinstance(plain, dict):
        if "tensor" in plain:
            return tensors[plain["tensor"]]
        return {key: _with_tensors(inner, tensors) for key, inner in plain["table"]}
    return plain


def _digest_of(plain: Any, tensors: Mapping[str, Tensor]) -> str:
    import torch

    found = blake2b(json.dumps(plain).encode(), digest_size=16)
    for name, value in sorted(tensors.items()):
        found.update(f"{name} {value.dtype} {list(value.shape)}".encode())
        found.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()

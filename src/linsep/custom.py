"""Parts that users bring: functions in a file or module of theirs, and what packages offer.

    mine.py:er_kd      a function in a file; acme.methods:er_kd one in a module
    er_kd              the same, if a package offers it as an entry point of `linsep.methods`

`load` is the only place where a user's file is executed, and it is called only for what the user
has named. A part is known by a digest of its source, so that a run notices when it was changed.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from errno import ENOENT
from functools import lru_cache
from hashlib import blake2b
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from .errors import ConfigError, LinsepError, unknown

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Group = Literal["methods", "addons", "nets", "scenarios"]
PREFIX = "linsep_custom_"  # of the modules that users' files become
NO_FILE = "<python>"  # in place of a file: a function typed into an interpreter


class Part(NamedTuple):
    make: Callable[..., Any]
    source: str  # where it is: file.py:name, module:name, or the package that offers it
    digest: str  # of its source; empty if that cannot be found


def is_reference(text: str) -> bool:
    """Return whether a name leads to a function of the user's."""
    return ":" in text


def name_of(reference: str) -> str:
    """'lib/mine.py:er_kd' -> 'er_kd'."""
    return reference.rpartition(":")[2]


def load(reference: str, where: str, error: type[LinsepError] = ConfigError) -> Part:
    """Execute a user's file, or import their module, and return the function that is named.

    A file is executed once in a process unless it changes.
    """
    place, _, name = reference.rpartition(":")
    if not place or not name:
        raise error(f"{where}{reference} names no function; write file.py:function")
    try:
        made = _executed(Path(place)) if place.endswith(".py") else _imported(place)
    except LinsepError:
        raise
    except (Exception, SystemExit) as failure:  # a user's file may raise anything
        raise error(f"{where}{place} cannot be imported: {_reason(failure)}") from failure
    module, source, digest = made
    found = getattr(module, name, None)
    if not callable(found):
        functions = [v for v in vars(module).values() if inspect.isfunction(v)]
        defined = [v.__name__ for v in functions if v.__module__ == module.__name__]
        choice = f". Did you mean one of {', '.join(defined)}?" if defined else ""
        raise error(f"{where}{place} has no function {name!r}{choice}")
    return Part(found, f"{source}:{name}", digest)


def offered(group: Group) -> dict[str, EntryPoint]:
    """Return what installed packages offer, by name; nothing of it is imported."""
    return _offered(group, tuple(sys.path))


@lru_cache(maxsize=64)  # it reads the metadata of every package
def _offered(group: Group, path: tuple[str, ...]) -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=f"linsep.{group}")}


def package_of(point: EntryPoint) -> str:
    """'acme-methods 1.2', the package that an entry point belongs to."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.module


def offered_by_package(source: str) -> bool:
    """Return whether a source is one that `take` has written."""
    return ": " in source


def take(group: Group, name: str, where: str) -> Part | None:
    """Import what a package offers under a name; None if no package does."""
    point = offered(group).get(name)
    if point is None:
        return None
    package = package_of(point)
    try:
        made, (_, _, digest) = point.load(), _imported(point.module)
    except (Exception, SystemExit) as failure:
        raise ConfigError(f"{where}{name} of {package} fails: {_reason(failure)}") from failure
    return Part(made, f"{package}: {point.value}", _digest([package.encode(), digest.encode()]))


def described(made: Callable[..., Any], where: str) -> Part:
    """Return a function that was handed over in Python, with its source if that can be found."""
    name = getattr(made, "__name__", "")
    if not name.isidentifier():
        raise ConfigError(f"{where}{type(made).__name__} has no name; pass a function")
    try:
        file, text = inspect.getsourcefile(made), inspect.getsource(made)
    except (OSError, TypeError):
        return Part(made, f"{NO_FILE}:{name}", "")
    if file and file.endswith(".py") and Path(file).exists() and made.__qualname__ == name:
        path = Path(file).absolute()
        return Part(made, f"{path}:{name}", _digest(_contents(path).values()))
    return Part(made, f"{NO_FILE}:{name}", _digest([text.encode()]))


class Known(Protocol):
    """What a config remembers of a part: where it is, and the digest of its source."""

    source: str
    digest: str


def find(
    group: Group,
    named: str,
    known: Mapping[str, Known],
    objects: Mapping[str, Any],
    where: str,
    ours: Iterable[str],
) -> Part:
    """Return the user's part that a name stands for; one that has changed is refused.

    `named` is a reference or a bare name. Of a bare name, `known` has what a config remembers, and
    `objects` the function itself if it was handed over in Python. `ours` are names that linsep has.
    """
    before = known.get(named)
    source, digest = (before.source, before.digest) if before else ("", "")
    if named in objects:
        return Part(objects[named], source, digest)
    if is_reference(named):
        return load(named, where)
    found = take(group, named, where)
    if found is None and not source:
        wrong = unknown(group[:-1], named, [*ours, *offered(group)])
        raise ConfigError(f"{where}{wrong}, or your own: file.py:function")
    if found is None:
        if source.startswith(NO_FILE):
            raise ConfigError(f"{where}{named} was handed over in Python and is in no file")
        if offered_by_package(source):
            package = source.partition(": ")[0]
            raise ConfigError(f"{where}{named} is a part of {package}, which is not installed")
        found = load(source, where)
    if digest and digest != found.digest:
        raise ConfigError(
            f"{where}{found.source} was changed since this run was planned or begun (its digest "
            f"is {found.digest}, not {digest}); restore it, or start a new run with it"
        )
    return found


@contextmanager
def calling(part: str, where: str) -> Iterator[None]:
    """Report an exception of a user's function in one line; linsep's own pass through."""
    try:
        yield
    except LinsepError:
        raise
    except Exception as failure:  # a user's function may raise anything
        raise ConfigError(f"{where}{part} failed: {_reason(failure)}") from failure


def blamed(error: BaseException) -> str | None:
    """Return where in a user's own file an exception was raised, and what it was, if it was."""
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        if str(frame.f_globals.get("__name__", "")).startswith(PREFIX):
            return f"{Path(frame.f_code.co_filename).name}, {_reason(error)}"
    return None


# --- the inside ----------------------------------------------------------------------------------


def _executed(path: Path) -> tuple[ModuleType, str, str]:
    """Execute a file as a module of its own; the files beside it can be imported."""
    path = path.expanduser().absolute()
    contents = _contents(path)
    digest = _digest(contents.values())
    name = f"{PREFIX}{digest}_{_digest([str(path).encode()])}"
    if name in sys.modules:
        return sys.modules[name], str(path), digest
    spec = spec_from_loader(name, loader=None, origin=str(path))
    assert spec is not None
    module = module_from_spec(spec)
    module.__file__ = str(path)
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    beside = {str(file) for file in contents if file != path}  # they may have changed as well
    for other, loaded in list(sys.modules.items()):
        if other != "__main__" and getattr(loaded, "__dict__", {}).get("__file__") in beside:
            del sys.modules[other]
    sys.modules[name] = module  # dataclasses and annotations look there
    try:
        exec(compile(contents[path], path, "exec"), vars(module))  # the bytes that were digested
    except BaseException:
        del sys.modules[name]
        raise
    return module, str(path), digest


def _imported(name: str) -> tuple[ModuleType, str, str]:
    module = importlib.import_module(name)
    file = getattr(module, "__file__", None) or ""
    digest = _digest([Path(file).read_bytes()]) if file.endswith(".py") else ""
    return module, name, digest


def _contents(path: Path) -> dict[Path, bytes]:
    """Return a file's content and that of the files near it that it imports, and so on."""
    if not path.is_file():  # a pipe would be waited for
        raise FileNotFoundError(ENOENT, "there is no such file", str(path))
    found: dict[Path, bytes] = {}
    waiting = [path]
    while waiting:
        at = waiting.pop(0)
        if at not in found:
            found[at] = at.read_bytes()
            waiting += _imports(found[at], at.parent, path.parent)
    return found


def _imports(content: bytes, folder: Path, root: Path) -> list[Path]:
    """The files that a source imports, if they are below the root or its own folder.

    Of `a.b.c` these are a, a.b and a.b.c, each a module or a package.
    """
    places: set[tuple[Path, str]] = set()
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Import):
            places |= {(root, alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            start = root if not node.level else [folder, *folder.parents][node.level - 1]
            names = ("", *(f".{alias.name}" for alias in node.names))  # they may be modules too
            places |= {(start, f"{node.module or ''}{name}".strip(".")) for name in names}
    files: dict[Path, None] = {}
    for start, dotted in sorted(places):
        parts = dotted.split(".")
        for end in range(len(parts) + 1):
            inner = start.joinpath(*parts[:end])
            beside = (inner.with_name(f"{inner.name}.py"), inner / "__init__.py")
            files |= {file: None for file in beside[end == 0 :] if file.is_file()}
    return list(files)


def code_of(values: Iterable[object]) -> str:
    """A digest of classes, functions and plain values, and of the user's own code that they use.

    Of what a library defines, the name; of what the user does, the instructions and constants of
    every method and function, the functions and classes that these name, and the plain values among
    their globals. It is of the code that runs, so it depends on the version of Python.
    """
    digest, seen = blake2b(digest_size=16), set[int]()
    waiting = list(values)
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, frozenset):
            digest.update(repr(sorted(map(repr, one))).encode())
        elif one is None or isinstance(one, (str, bytes, int, float, complex)):
            digest.update(repr(one).encode())
        elif isinstance(one, (tuple, list)):
            digest.update(f"{len(one)} of".encode())
            waiting[:0] = one
        elif isinstance(one, CodeType):
            digest.update(one.co_code + repr(one.co_names).encode())
            waiting[:0] = one.co_consts
        elif isinstance(one, (FunctionType, type)):
            digest.update(f"{one.__module__}.{one.__qualname__}".encode())
            if id(one) not in seen and _users(one):
                seen.add(id(one))
                waiting[:0] = _inside(one)
    return digest.hexdigest()


def code_of_module(module: Any) -> str:
    """A digest of a torch module: the user's own code, and what it holds beside weights."""
    parts = list[object]()
    for part in module.modules():
        held = {k: v for k, v in vars(part).items() if not k.startswith("_") and k != "training"}
        parts.append((type(part), *(item for pair in sorted(held.items()) for item in pair)))
    return code_of(parts)


def _inside(one: FunctionType | type) -> list[object]:
    """What a function or a class of the user's is made of."""
    if isinstance(one, FunctionType):
        used = [one.__globals__.get(name) for name in _names(one.__code__)]
        kept = [cell.cell_contents for cell in one.__closure__ or ()]
        return [one.__code__, one.__defaults__, *used, *kept]
    methods = [getattr(value, "__func__", value) for value in vars(one).values()]
    return [*one.__bases__, *(v for v in methods if isinstance(v, FunctionType))]


def _names(code: CodeType) -> list[str]:
    """All names that code and the code inside it reads."""
    inner = [const for const in code.co_consts if isinstance(const, CodeType)]
    return [*code.co_names, *(name for one in inner for name in _names(one))]


def _users(one: FunctionType | type) -> bool:
    """Whether something was defined outside of installed packages and the standard library."""
    if one.__module__ == "__main__":  # a script, or typed into a notebook
        return True
    file = getattr(sys.modules.get(one.__module__), "__file__", None)
    if file is None or one.__module__.partition(".")[0] == "linsep":
        return False
    places = sysconfig.get_paths()
    return not any(file.startswith(places[name]) for name in ("stdlib", "purelib", "platlib"))


def _digest(contents: Iterable[bytes]) -> str:
    digest = blake2b(digest_size=8)
    for content in contents:
        digest.update(len(content).to_bytes(8) + content)
    return digest.hexdigest()


def _reason(error: BaseException) -> str:
    """'line 12: NameError: name 'x' is not defined'; the line is in the user's file."""
    kind, text = type(error).__name__, " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {kind}: {error.msg}"
    frames = [*traceback.walk_tb(error.__traceback__)]
    custom = [at for at, _ in frames if str(at.f_globals.get("__name__", "")).startswith(PREFIX)]
    lines = {id(at): number for at, number in frames}
    place = f"line {lines[id(custom[-1])]}: " if custom else ""
    return f"{place}{kind}: {text}" if text else f"{place}{kind}"

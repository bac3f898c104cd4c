"""Registry of parts by name: the modules of a package each register one class or function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any, Generic, TypeVar, cast

P = TypeVar("P")
T = TypeVar("T")


class Registry(Mapping[str, P], Generic[P]):
    """Mapping from a name to the class or function that a module of `package` registers under the module's name.

    A module is imported when its part is requested, so one part does not load the dependencies of another. Parts
    from other places are registered under any name.
    """

    def __init__(self, package: str) -> None:
        self.package = package
        self._parts: dict[str, P] = {}

    def register(self, kind: str) -> Callable[[T], T]:
        """Return a decorator that registers a part as `kind` and sets its attribute `kind`.

        Raises ValueError if the part is in a module of the package with another name.
        """

        def add(part: T) -> T:
            named: Any = part
            package, _, module = named.__module__.rpartition(".")
            if package == self.package and module != kind:
                raise ValueError(f"{named.__module__} registers {kind!r}: expected the name of its module")
            named.kind = kind
            self._parts[kind] = cast(P, part)
            return part

        return add

    def __getitem__(self, kind: str) -> P:
        if kind not in self._parts:
            if kind not in module_names(self.package):
                raise KeyError(kind)
            import_module(f"{self.package}.{kind}")
        return self._parts[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*module_names(self.package), *self._parts}))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def module_names(package: str) -> list[str]:
    """Return the sorted names of the modules of a package; none of them is imported."""
    spec = find_spec(package)
    folders = (spec and spec.submodule_search_locations) or []
    return sorted(module.name for module in iter_modules(folders))

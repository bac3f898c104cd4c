"""Registry of classes by name: the modules of a package each register one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import TypeVar

T = TypeVar("T", bound=type)


class Registry(Mapping[str, type]):
    """Mapping from a name to the class that a module of `package` registers under the module's name.

    A module is imported when its class is requested, so one part does not load the dependencies of the others.
    Classes from other places are registered under any name.
    """

    def __init__(self, package: str) -> None:
        self.package = package
        self._classes: dict[str, type] = {}

    def register(self, kind: str) -> Callable[[T], T]:
        """Return a decorator that registers a class as `kind` and sets its attribute `kind`.

        Raises ValueError if the class is in a module of the package with another name.
        """

        def add(cls: T) -> T:
            package, _, module = cls.__module__.rpartition(".")
            if package == self.package and module != kind:
                raise ValueError(f"{cls.__module__} registers {kind!r}: expected the name of its module")
            cls.kind = kind  # type: ignore[attr-defined]
            self._classes[kind] = cls
            return cls

        return add

    def __getitem__(self, kind: str) -> type:
        if kind not in self._classes:
            if kind not in module_names(self.package):
                raise KeyError(kind)
            import_module(f"{self.package}.{kind}")
        return self._classes[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*module_names(self.package), *self._classes}))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def module_names(package: str) -> list[str]:
    """Return the sorted names of the modules of a package; none of them is imported."""
    spec = find_spec(package)
    folders = (spec and spec.submodule_search_locations) or []
    return sorted(module.name for module in iter_modules(folders))

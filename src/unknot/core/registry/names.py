"""Things of one kind by name: ours, those of other packages, and those that a program adds."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from unknot.core import lazy
from unknot.core.errors import ConfigError, UnknotError, nearest
from unknot.core.errors import said as told
from unknot.core.registry.imports import imported
from unknot.core.registry.options import Option, is_function, options_of
from unknot.core.registry.sections import REGISTRIES, as_written, taken, union

T = TypeVar("T")


class _View(Mapping[str, T]):
    """What comes with unknot, by name; what is there as ``"package.module:Thing"`` is imported when read."""

    def __init__(self, things: dict[str, T | str]) -> None:
        self._things = things

    def __getitem__(self, name: str) -> T:
        thing = self._things[name]
        if isinstance(thing, str):
            thing = self._things[name] = lazy.imported(thing)
        return thing

    def __contains__(self, name: object) -> bool:
        return name in self._things

    def __iter__(self) -> Iterator[str]:
        return iter(self._things)

    def __len__(self) -> int:
        return len(self._things)

    def __repr__(self) -> str:
        return repr(dict(self))


class Registry(Generic[T]):
    """Things of one kind by name.

    `check` raises `ConfigError` for what cannot be one of them. A room opens its registry with what comes
    with unknot, and says what all of them are (`base`: a class, or a protocol). That room, its `home`, is
    imported when the registry is first asked anything. Where the base lies in another, `of` says where.
    """

    def __init__(
        self,
        kind: str,
        group: str,
        check: Callable[[str, Any], None] | None = None,
        home: str = "",
        of: str = "",
    ) -> None:
        self.kind = kind
        self.group = group
        self.home = home
        self._of = of
        self._open = not home
        self._base: Any = None
        self._kinds: frozenset[Any] = frozenset()  # the types of the base
        self._check = check
        self._given: int | None = None
        self._reserved: tuple[str, ...] = ("name",)
        self._signature: Callable[[Any], Any] = lambda thing: thing
        self._calls = False
        self._wrap: Callable[[Any], Any] | None = None
        self._ours: dict[str, T | str] = {}
        self._added: dict[str, T] = {}
        self._loaded: dict[str, T] = {}
        REGISTRIES.append(self)

    def __repr__(self) -> str:
        return f"Registry({self.kind}: {', '.join([*self.ours, *self._added])})"

    # How it is filled ----------------------------------------------------------------------------

    def open(
        self,
        things: Mapping[str, T | str],
        base: Any = None,
        *,
        check: Callable[[str, Any], None] | None = None,
        given: int | None = None,
        reserved: Iterable[str] = (),
        signature: Callable[[Any], Any] | None = None,
        wrap: Callable[[Any], Any] | None = None,
    ) -> Mapping[str, T]:
        """Fill it with ours, whose names nobody can take over; gives a view of them.

        One that is written as ``"package.module:Thing"`` is imported when it is first asked for.
        `given` are the leading arguments that unknot itself passes (see `options_of`), `reserved` the
        section's own keys, and `signature` gives what of a thing has its options. Where the base is a
        protocol of calls, a function is such a thing itself; elsewhere it makes one. With `wrap`, which
        makes a `base` of it, anything that can be called will do. A test examines ours
        as others' are when they come: at every import it would take time.
        """
        self._base, self._kinds = base, union(base)
        self._check = check or self._check
        self._calls = wrap is not None or "__call__" in _members(base)
        self._wrap = wrap
        self._given = given if given is not None or self._calls else 0
        self._reserved = ("name", *reserved)
        self._signature = signature or self._signature
        self._ours.update(things)
        self._open = True
        return self.ours

    def _fill(self) -> None:
        """Let the room at home open it, if it has not yet."""
        if not self._open:
            lazy.imported(self.home)

    def __call__(self, name: Any = None) -> Any:
        """``@methods("mine")`` above a class or a function; without a name, its own is taken."""
        if name is None or isinstance(name, str):
            return lambda thing: self.add(_own_name(thing) if name is None else name, thing)
        return self.add(_own_name(name), name)

    def add(self, name: str, thing: T) -> T:
        """Let a thing be known by a name. The same one, defined anew, takes the place of the old."""
        if not isinstance(name, str) or not name or ":" in name or name != name.strip():
            raise ConfigError(f"the name of a {self.kind} is a text without ':', not {name!r}")
        if name in self.ours:
            raise ConfigError(f"the {self.kind} {name!r} is unknot's own: give yours another name")
        if name in self._added and _home(self._added[name]) != _home(thing):
            raise ConfigError(
                f"there is a {self.kind} {name!r} already, {_home(self._added[name])!r}: "
                f"give {_home(thing)!r} another name"
            )
        self._examine(name, thing)
        self._added[name] = thing
        return thing

    # How it is asked -----------------------------------------------------------------------------

    @property
    def ours(self) -> Mapping[str, T]:
        """What comes with unknot."""
        self._fill()
        return _View(self._ours)

    @property
    def base(self) -> Any:
        """What all of them are."""
        self._fill()
        return self._base

    def is_of(self, kinds: frozenset[Any]) -> bool:
        """Whether these types are what all of them are; asks for nothing that is not there yet."""
        if not self._open:
            return {_home(kind) for kind in kinds} == {self._of}
        return self._base is not None and self._kinds == kinds

    def names(self) -> tuple[str, ...]:
        """Every name there is: ours first, then what was added, then what installed packages bring."""
        outside = (entry.name for entry in self._entries())
        return tuple(dict.fromkeys([*self.ours, *self._added, *outside]))

    def get(self, name: str, where: str = "") -> T:
        """The thing of this name; `where` is the place that names it, for the error."""
        if not isinstance(name, str):
            raise ConfigError(f"{where or 'it'} must be a text, the name of a {self.kind}, not {name!r}")
        for table in (self.ours, self._added, self._loaded):
            if name in table:
                return table[name]
        said = f"{where} = {name!r}" if where else f"{self.kind} {name!r}"
        if ":" in name:
            thing: T = imported(name, said)
            if is_function(thing) and isinstance(self.base, type) and not self._calls and not self._given:
                home = f"{self.base.__module__}.{self.base.__qualname__}"
                raise ConfigError(f"{said} is a function, and must be a class: a {home}")
            self._examine(name, thing)
            return thing
        if name not in (known := self.names()):
            such = f"{said}: there is no such {self.kind}" if where else f"there is no {said}"
            raise ConfigError(f"{such}.{nearest(name, known)}")
        self._loaded[name] = self._from_package(name, said)
        return self._loaded[name]

    def options(self, name: str, where: str = "") -> dict[str, Option]:
        """The options of the thing of this name."""
        return self.options_of(self.get(name, where))

    def options_of(self, thing: T) -> dict[str, Option]:
        self._fill()
        return options_of(self._signature(thing), self._given)

    def make(
        self,
        name: str,
        values: Mapping[str, object] | None = None,
        where: str = "",
        given: Iterable[Any] = (),
    ) -> Any:
        """What is named, made with these options (and the arguments that unknot gives)."""
        thing: Any = self.get(name, _named(where))
        typed = self.typed(name, values or {}, where)
        with as_written(where, self.options_of(thing)):
            if isinstance(thing, type) or (is_function(thing) and not self._calls):
                made = self.called(name, thing, given, typed)
            else:
                made = _with_options(thing, typed)
        if self._wrap is not None:
            made = self._wrap(made)
        if not is_function(made) and (lacks := _lacks(made, self.base)):
            raise ConfigError(f"{self.kind} {name!r}: what it makes {lacks}")
        return made

    def called(self, name: str, maker: Any, given: Iterable[Any], options: Mapping[str, Any]) -> Any:
        """What a maker makes; where one from outside fails, it is said which, and how it was called."""
        arguments = tuple(given)
        try:
            return maker(*arguments, **options)
        except Exception as error:
            if name in self.ours or isinstance(error, UnknotError):
                raise
            told = [*map(_brief, arguments), *(f"{key}={_brief(value)}" for key, value in options.items())]
            call = f"{getattr(maker, '__name__', name)}({', '.join(told)})"
            what = f"{type(error).__name__}: {error}"
            raise ConfigError(f"{self.kind} {name!r}: making it failed: {call} gave {what}") from error

    def given(self, thing: Any, where: str) -> Any:
        """One of these as Python gives it: itself, or by name; else an error that says what to write."""
        if isinstance(thing, str):
            self.get(thing, where)
            return self.make(thing)
        if isinstance(thing, type):
            raise ConfigError(f"{where} is a class: give one of it, {thing.__name__}(...)")
        if not (self._calls and is_function(thing)) and (lacks := _lacks(thing, self.base)):
            names = ", ".join(map(repr, self.ours))
            raise ConfigError(
                f"{where} must be of the kind {self.kind}, or the name of one ({names}): {thing!r} {lacks}"
            )
        return thing

    def typed(
        self, name: str, values: Mapping[str, object], where: str = "", supplied: Collection[str] = ()
    ) -> dict[str, Any]:
        """Options of the thing of this name, checked and converted; `supplied` ones come from elsewhere."""
        options, who = self.options(name, _named(where)), f"{self.kind} {name!r}"
        return taken(options, values, where, who, [(_named(where), self, name)], self, supplied)

    def owners(self, key: str) -> list[str]:
        """Which of those that are here already have an option of this name."""
        return [name for name, thing in self._here().items() if key in self.options_of(thing)]

    def name_of(self, thing: object) -> str:
        """Under which name this thing is known; where it comes from, if under none."""
        self._fill()
        known = {**self._ours, **self._added, **self._loaded}
        return next(
            (name for name, one in known.items() if one is thing or one == _home(thing)), _home(thing)
        )

    def _here(self) -> dict[str, T]:
        return {**self.ours, **self._added, **self._loaded}

    # What other packages bring -------------------------------------------------------------------

    def _entries(self) -> list[Any]:
        from importlib.metadata import entry_points  # only for what is not ours: it reads many files

        return [entry for entry in entry_points(group=self.group) if entry.name not in self.ours]

    def _from_package(self, name: str, said: str) -> T:
        found = {entry.value: entry for entry in self._entries() if entry.name == name}
        if len(found) > 1:
            listed = " or ".join(f"{value!r} ({_package(entry)})" for value, entry in sorted(found.items()))
            raise ConfigError(f"{said}: several packages have one of that name; write {listed}")
        (entry,) = found.values()
        try:
            thing: T = entry.load()
            self._examine(name, thing)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a module may even try to end the program
            what = str(error) if isinstance(error, ConfigError) else told(error)
            raise ConfigError(
                f"{said}: {entry.value!r} ({_package(entry)}) cannot be used: {what}"
            ) from error
        return thing

    def _examine(self, name: str, thing: Any) -> None:
        """Refuse what cannot be one of these, as far as that can be told before it is made."""
        said = f"{self.kind} {name!r} ({_home(thing)})"
        if unsaid := getattr(thing, "__abstractmethods__", None):
            raise ConfigError(f"{said} does not say {', '.join(sorted(unsaid))}")
        if self._wrap is not None:
            lacks = "" if callable(thing) else "cannot be called"
        else:
            lacks = "" if is_function(thing) else _lacks(thing, self.base)
        if lacks:
            raise ConfigError(f"{said} {lacks}")
        for option in self.options_of(thing):
            if option in self._reserved:
                raise ConfigError(
                    f"{said} has an option {option!r}, which means something else in its section: "
                    "call it otherwise (in a dataclass, what is written without a type is no option)"
                )
        if self._check is not None:
            self._check(said, thing)


def _brief(value: Any) -> str:
    return repr(value) if isinstance(value, bool | int | float | str | tuple) else type(value).__name__


def _with_options(function: Any, options: Mapping[str, Any]) -> Any:
    """The same function, under its own name, with some arguments filled in."""
    if not options:
        return function
    return functools.update_wrapper(functools.partial(function, **options), function)


def _members(base: Any) -> dict[str, bool]:
    """What a protocol asks for, and whether each is a method; of anything else, nothing."""
    if not getattr(base, "_is_protocol", False):
        return {}
    found = dict.fromkeys(getattr(base, "__annotations__", {}), False)
    for name, member in vars(base).items():
        if name == "__call__" or not name.startswith("_"):
            found[name] = inspect.isfunction(member)
    return found


def _lacks(thing: Any, base: Any) -> str:
    """In words, in what a class or an object is no `base`; nothing where it is one, or that cannot be told.

    Of a class only methods are asked for: other attributes may be set when one is made.
    """
    made = not isinstance(thing, type)
    for name, method in _members(base).items():
        if method:
            there = any(name in vars(kind) for kind in (type(thing) if made else thing).__mro__)
        else:
            there = not made or hasattr(thing, name)
        if not there:
            what = "method" if method else "attribute"
            return f"has no {what} {name!r}, which {base.__module__}.{base.__qualname__} asks for"
    if not isinstance(base, type) or getattr(base, "_is_protocol", False):
        return ""
    right = isinstance(thing, base) if made else issubclass(thing, base)
    return "" if right else f"is no {base.__module__}.{base.__qualname__}"


def _own_name(thing: Any) -> str:
    name = getattr(thing, "name", None) or getattr(thing, "kind", None)
    if not isinstance(name, str):
        raise ConfigError(f"{_home(thing)} has no name of its own: say under which it is to be known")
    return name


def _home(thing: Any) -> str:
    """Where a thing comes from: ``package.module:Thing``."""
    kind = thing if isinstance(thing, type) or is_function(thing) else type(thing)
    return f"{getattr(kind, '__module__', '')}:{getattr(kind, '__qualname__', kind)}"


def _named(where: str) -> str:
    return f"{where}.name" if where else ""


def _package(entry: Any) -> str:
    return f"package {entry.dist.name}" if entry.dist is not None else "an unknown package"

"""The options of a thing that has a name, read off its signature: the same rules for ours and for others'."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
import typing
import weakref
from dataclasses import dataclass, field
from typing import Any

from unknot.core.fields import EACH
from unknot.core.registry.explain import explained

REQUIRED: Any = inspect.Parameter.empty
"""The default of an option that has none."""


@dataclass(frozen=True)
class Option:
    """What may be said of a thing: under which name, of what type, and what holds if nothing is said."""

    name: str
    hint: Any = Any
    default: Any = REQUIRED
    each: bool = False
    """Whether it has a value for each client (`EACH`)."""
    owner: Any = field(default=None, compare=False, repr=False)
    """The class or the function that has it."""

    @property
    def about(self) -> str:
        """What it means, in a sentence or two; read from the owner's source when asked."""
        return explained(self.owner, self.name)


def options_of(thing: Any, given: int | None = None) -> dict[str, Option]:
    """The fields of a dataclass, the parameters of another class or of a function.

    `given` is how many leading arguments unknot itself passes: they are no options. Of a function of which
    that is not known, keyword-only parameters are. An object that is there already has no options.
    """
    if isinstance(thing, type):
        maker = next(cls for cls in thing.__mro__ if "__init__" in vars(cls))
        if "__dataclass_fields__" in vars(maker):
            hints, each = _hints(maker)
            fields = (one for one in dataclasses.fields(maker) if one.init)
            return {
                f.name: Option(f.name, hints.get(f.name, Any), _default(f), f.name in each, thing)
                for f in fields
            }
    elif not is_function(thing):
        return {}
    try:
        parameters = list(inspect.signature(thing).parameters.values())
    except (TypeError, ValueError):  # some builtins have none
        return {}
    hints, each = _hints(vars(maker)["__init__"] if isinstance(thing, type) else thing)
    kinds: tuple[Any, ...] = (inspect.Parameter.KEYWORD_ONLY,)
    if isinstance(thing, type) or given is not None:
        kinds += (inspect.Parameter.POSITIONAL_OR_KEYWORD,)
    return {
        p.name: Option(p.name, hints.get(p.name, Any), p.default, p.name in each, thing)
        for place, p in enumerate(parameters)
        if p.kind in kinds and (place >= (given or 0) or p.kind is p.KEYWORD_ONLY)
    }


def is_function(thing: object) -> bool:
    """Whether it is a plain function, or one with some arguments filled in."""
    return inspect.isroutine(thing) or isinstance(thing, functools.partial)


def _hints(thing: Any) -> tuple[dict[str, Any], set[str]]:
    """What types its parameters have, as far as they can be found out, and which have a value a client."""
    of = thing.func if isinstance(thing, functools.partial) else thing
    lasting = isinstance(of, type | types.FunctionType)
    if (known := _KNOWN.get(of) if lasting else None) is not None:
        return known
    try:
        marked = typing.get_type_hints(of, include_extras=True)
        found = typing.get_type_hints(of), {name for name, hint in marked.items() if _is_each(hint)}
    except Exception:  # a name that is imported for type checkers alone, say: then nothing is converted
        return {}, set()
    if lasting:
        _KNOWN[of] = found
    return found


# Annotations are texts, and to evaluate them is most of what reading a file takes.
_KNOWN: weakref.WeakKeyDictionary[Any, tuple[dict[str, Any], set[str]]] = weakref.WeakKeyDictionary()


def _is_each(hint: Any) -> bool:
    marks = getattr(hint, "__metadata__", ())
    return any(mark is EACH for mark in marks) or any(map(_is_each, typing.get_args(hint)))


def _default(one: dataclasses.Field[Any]) -> Any:
    if one.default_factory is not dataclasses.MISSING:
        return one.default_factory()
    return REQUIRED if one.default is dataclasses.MISSING else one.default

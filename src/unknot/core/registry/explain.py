"""What a parameter means, in the words that stand beside it in the code.

That is the text under a field of a dataclass; or else the sentence of the docstring, of the class or the
function, that names the parameter in backticks. Sources are read when somebody asks, and not before.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import textwrap
from itertools import pairwise
from typing import Any


def explained(thing: Any, name: str) -> str:
    """What this parameter of a class or a function means; nothing where nobody has said it."""
    if isinstance(thing, functools.partial):
        thing = thing.func
    kinds = thing.__mro__[:-1] if isinstance(thing, type) else ()
    for kind in kinds:
        if text := _under_fields(kind).get(name):
            return text
    for kind in kinds:
        for doc in (vars(kind).get("__doc__"), getattr(vars(kind).get("__init__"), "__doc__", None)):
            if text := _sentence(doc, name):
                return text
    return "" if kinds else _sentence(getattr(thing, "__doc__", None), name)


@functools.cache
def _under_fields(kind: type) -> dict[str, str]:
    """The texts under the fields of a class, by field."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError, SyntaxError, ValueError):  # made at run time, or its source is not here
        return {}
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    found = {}
    for field, text in pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str)
        ):
            found[field.target.id] = " ".join(text.value.value.split())
    return found


def _sentence(doc: str | None, name: str) -> str:
    """The first sentence of a docstring that names it; of "`name`: what it means." what comes after."""
    sentences = re.split(r"(?<=[.?!])\s+(?=[A-Z`\"])", " ".join((doc or "").split()))
    named = rf"(?<!`)`{re.escape(name)}`(?!`)"
    text = next((text for text in sentences if re.search(named, text)), "")
    told = re.sub(rf"^{named}: ", "", text)
    return told if told == text else told[0].upper() + told[1:]

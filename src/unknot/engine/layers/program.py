"""A model as a straight list of layers, each with a rule that runs it on a whole stack."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock, get_ident
from typing import Any, Protocol

import torch
from torch import Tensor, fx, nn

from unknot.engine.layers import language
from unknot.engine.layers.forms import Layer, Unsupported, to_rows
from unknot.engine.layers.functions import FUNCTIONS, METHODS, PLAIN_MODULES
from unknot.engine.layers.rules import KINDS, MODULES
from unknot.engine.layers.twice import FastTwice
from unknot.engine.outputs import unwrapped

KNOWN = {**KINDS, **language.KINDS}


class Forward(Protocol):
    """Logits ``[rows, batch, ...]`` of a stack of models, one a row."""

    @property
    def stored(self) -> Mapping[str, tuple[int, ...]]:
        """The order of axes in which a parameter is to be stored, where it is not its own."""
        ...

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Instruction:
    """One call: the rule, and where its inputs come from."""

    name: str
    kind: str
    rule: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    module: nn.Module | None = None

    @cached_property
    def only(self) -> str | None:
        """The name of its input where that is all it takes."""
        simple = len(self.args) == 1 and not self.kwargs and isinstance(self.args[0], fx.Node)
        return self.args[0].name if simple else None


@dataclass(frozen=True)
class Program:
    """A traced model. `Unsupported` when something in it has no rule."""

    source: str
    instructions: tuple[Instruction, ...]
    result: str
    stored: Mapping[str, tuple[int, ...]]
    base: Mapping[str, Tensor] = field(default_factory=dict)
    """What is frozen, one copy for all rows, in the order of axes in which it is stored."""
    tied: Mapping[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    """Uses of parameters that layers share: the parameter, and the order of axes that this use has."""

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        values: dict[str, Any] = {self.source: x}
        if self.base:
            rows = len(x)
            parameters = {**parameters, **{n: p.expand(rows, *p.shape) for n, p in self.base.items()}}
        if self.tied:
            uses = {n: parameters[p].permute(0, *(a + 1 for a in o)) for n, (p, o) in self.tied.items()}
            parameters = {**parameters, **uses}

        def look_up(node: fx.Node) -> Any:
            return values[node.name]

        for step in self.instructions:
            if step.only:
                values[step.name] = step.rule(parameters, values[step.only])
            else:
                args = fx.node.map_arg(step.args, look_up)
                kwargs = fx.node.map_arg(step.kwargs, look_up)
                values[step.name] = step.rule(parameters, *args, **kwargs)
        logits: Tensor = to_rows(values[self.result])
        return logits


def trace(model: nn.Module, twice: bool = False) -> Program:
    """The model's program; raises `Unsupported`, saying why, when it has none.

    `twice` is for a program that is differentiated twice.
    """
    _check_as_written(model)
    try:
        with _tracing:
            graph = _Tracer().trace(model)
    except Exception as error:  # whatever a forward does with a proxy: the model cannot be traced
        raise Unsupported(f"torch.fx cannot trace it ({error})") from error
    return _Compiler(model, graph, twice).program()


_tracing = Lock()


def _check_as_written(model: nn.Module) -> None:
    """Refuse what tracing, or a rule, would pass over without a word: what is not in a layer's own class."""
    if has_hooks(model):
        raise Unsupported("it has hooks")
    if type(model).__call__ is not nn.Module.__call__:
        raise Unsupported("its class has a __call__ of its own")
    for name, module in model.named_modules():
        where = name or "it"
        if "forward" in vars(module):
            raise Unsupported(f"{where} has a forward that was put in place of its class's")
        if hasattr(module, "batched_kind") and not _by_its_rule(module):
            raise Unsupported(f"{where} is a {type(module).__name__}, which does not do what its kind does")


def _by_its_rule(module: nn.Module) -> bool:
    """Whether the class that names a layer's rule is also the one that says what the layer does."""

    def source(name: str) -> type | None:
        return next((kind for kind in type(module).__mro__ if name in vars(kind)), None)

    plain = type(module).__call__ is nn.Module.__call__ and "batched_kind" not in vars(module)
    return plain and source("forward") is source("batched_kind")


class _Tracer(fx.Tracer):
    """While it is at work, calls of all modules of this process come to it: those of other threads pass."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = get_ident()

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if get_ident() != self._thread:
            return forward(*args, **kwargs)
        return super().call_module(m, forward, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        if get_ident() != self._thread:
            return attr_val
        return super().getattr(attr, attr_val, parameter_proxy_cache)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return hasattr(m, "batched_kind") or super().is_leaf_module(m, module_qualified_name)


class _Compiler:
    def __init__(
        self, model: nn.Module, graph: fx.Graph, twice: bool, shared: frozenset[str] = frozenset()
    ) -> None:
        self.twice = twice
        self.shared = shared  # parameters that layers share of which one wants them in another order of axes
        self.model = model
        self.graph = graph
        self.canonical = {id(parameter): name for name, parameter in model.named_parameters()}
        self.uses: dict[str, int] = {}
        self.stored: dict[str, tuple[int, ...]] = {}
        self.base: dict[str, Tensor] = {}
        self.tied: dict[str, str] = {}

    def program(self) -> Program:
        instructions: list[Instruction] = []
        source = result = ""
        for node in self.graph.nodes:
            if node.op == "placeholder":
                if source and node.users:
                    raise Unsupported("its forward takes more than one input")
                source = source or node.name
            elif node.op == "output":
                if not isinstance(node.args[0], fx.Node):
                    raise Unsupported(
                        "its forward gives more than one output"
                        if isinstance(node.args[0], tuple | list)
                        else "its forward gives no tensor"
                    )
                result = node.args[0].name
            else:
                instructions.append(self._instruction(node))
        if shared := {name for name, uses in self.uses.items() if uses > 1 and name in self.stored}:
            return _Compiler(self.model, self.graph, self.twice, frozenset(shared)).program()
        base = {name: p.permute(self._order(name, p)) for name, p in self.base.items()}
        named = dict(self.model.named_parameters())
        tied = {use: (name, self._order(use, named[name])) for use, name in self.tied.items()}
        stored = {n: order for n, order in self.stored.items() if n not in base and n not in tied}
        return Program(source, tuple(_pool_before_relu(instructions)), result, stored, base, tied)

    def _order(self, name: str, parameter: Tensor) -> tuple[int, ...]:
        return self.stored.get(name, tuple(range(parameter.dim())))

    def _instruction(self, node: fx.Node) -> Instruction:
        target, module = node.target, None
        if node.op == "get_attr":
            kind, rule = "constant", self._constant(str(target))
        elif node.op == "call_module":
            module = self.model.get_submodule(str(target))
            kind, rule = self._module(module, node)
        else:
            table: Mapping[Any, tuple[str, Any]] = METHODS if node.op == "call_method" else FUNCTIONS
            if target not in table:
                called = getattr(target, "__name__", target)
                raise Unsupported(f"it calls {called}, which has no batched rule")
            kind, rule = table[target]
            if node.kwargs.get("inplace") or target is operator.iadd:
                self._check_overwritten(node)
        return Instruction(node.name, kind, rule, node.args, dict(node.kwargs), module)

    def _check_overwritten(self, node: fx.Node) -> None:
        first = node.args[0]
        if isinstance(first, fx.Node) and len(first.users) > 1:
            raise Unsupported(f"{node.name} overwrites a value that is used elsewhere")

    def _module(self, module: nn.Module, node: fx.Node) -> tuple[str, Any]:
        if any(has_hooks(part) for part in module.modules()):
            raise Unsupported(f"{node.target} has hooks")
        kind = getattr(module, "batched_kind", None)
        if kind is not None or type(module) in MODULES:
            build = MODULES.get(type(module)) if kind is None else KNOWN.get(kind)
            if build is None:
                raise Unsupported(f"{node.target} is of the unknown kind {kind!r}")
            layer: Layer = build(module, self._names(module), self.twice)
            self.stored.update(layer.stored)
            return layer.kind, layer.rule
        if type(module) not in PLAIN_MODULES:
            raise Unsupported(f"{node.target} is a {type(module).__name__}, which has no batched rule")
        function, attributes = PLAIN_MODULES[type(module)]
        if getattr(module, "return_indices", False):
            raise Unsupported(f"{node.target} returns indices")
        if getattr(module, "inplace", False):
            self._check_overwritten(node)
        kind, rule = FUNCTIONS[function]
        options = {attribute: getattr(module, attribute) for attribute in attributes}
        return kind, _with_options(rule, options)

    def _names(self, module: nn.Module) -> dict[str, str]:
        """The names in the model's layout of a layer's own parameters."""
        return {own: self._name(p) for own, p in module.named_parameters()}

    def _name(self, parameter: nn.Parameter) -> str:
        """What a use of a parameter is known by.

        Each of a frozen one, and of one that layers share, has a name, and axes, of its own.
        """
        name = self.canonical[id(parameter)]
        self.uses[name] = self.uses.get(name, 0) + 1
        alias = f"{name} ({self.uses[name]})"
        if not parameter.requires_grad:
            self.base[alias] = parameter.detach()
        elif name in self.shared:
            self.tied[alias] = name
        else:
            return name
        return alias

    def _constant(self, target: str) -> Any:
        owner, _, attribute = target.rpartition(".")
        value = getattr(self.model.get_submodule(owner), attribute)
        if id(value) in self.canonical:
            name = self._name(value)
            return lambda parameters: parameters[name]

        def rule(parameters: Mapping[str, Tensor]) -> Tensor:
            any_parameter = next(iter(parameters.values()))
            constant: Tensor = value.to(any_parameter.device)
            if constant.is_floating_point():
                constant = constant.to(any_parameter.dtype)
            return constant.expand(len(any_parameter), *constant.shape)

        return rule


HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def has_hooks(module: nn.Module, kinds: Sequence[str] = HOOKS) -> bool:
    """Whether it has hooks of these kinds, or all modules of this process have some."""
    return any(getattr(module, kind) or getattr(nn.modules.module, f"_global{kind}") for kind in kinds)


def _with_options(rule: Any, options: dict[str, Any]) -> Any:
    return lambda parameters, x: rule(parameters, x, **options)


def _pool_before_relu(instructions: list[Instruction]) -> list[Instruction]:
    """ReLU after a max pool in place of before: the same numbers and gradients, a quarter of the work."""
    by_name = {step.name: i for i, step in enumerate(instructions)}
    users: dict[str, int] = {}
    for step in instructions:
        fx.node.map_arg((step.args, step.kwargs), lambda n: users.update({n.name: users.get(n.name, 0) + 1}))
    out = list(instructions)
    for i, pool in enumerate(instructions):
        first = pool.args[0] if pool.args else None
        if pool.kind != "max_pool2d" or not isinstance(first, fx.Node) or first.name not in by_name:
            continue
        j = by_name[first.name]
        relu = out[j]
        if relu.kind == "relu" and users[relu.name] == 1 and len(relu.args) == 1:
            out[j] = Instruction(
                relu.name, pool.kind, pool.rule, (relu.args[0], *pool.args[1:]), pool.kwargs, pool.module
            )
            out[i] = Instruction(pool.name, relu.kind, relu.rule, (first,), relu.kwargs, relu.module)
    return out


class Vmapped:
    """Any model, by `torch.vmap` over its parameters: right for all that PyTorch can batch."""

    stored: Mapping[str, tuple[int, ...]] = {}

    def __init__(self, model: nn.Module) -> None:
        def alone(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
            return unwrapped(torch.func.functional_call(model, parameters, (x,)))

        self._stacked = torch.vmap(alone, in_dims=(0, 0), randomness="error")

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        logits: Tensor = self._stacked(dict(parameters), x)
        return logits


class Single:
    """Any model, as a stack of one row: run as it is.

    With `channels_last`, images are handed to it with the channels of a pixel side by side in memory.
    `twice` is for a model that is differentiated twice.
    """

    stored: Mapping[str, tuple[int, ...]] = {}

    def __init__(self, model: nn.Module, channels_last: bool = False, twice: bool = False) -> None:
        self.model = model
        self._channels_last, self._twice = channels_last, twice

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        own = {name: stack[0] for name, stack in parameters.items()}
        given = x[0]
        if self._channels_last and given.dim() == 4:
            given = given.contiguous(memory_format=torch.channels_last)
        with FastTwice() if self._twice else nullcontext():
            return unwrapped(torch.func.functional_call(self.model, own, (given,))).unsqueeze(0)

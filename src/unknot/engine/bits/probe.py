"""Does a model's result depend on its parameters and its input alone? A few passes on made batches tell.

A model that carries something from one pass to the next (statistics, a counter, a generator) carries it
from one client to another, and no lineage knows. Its state and its results are compared: twice on one
batch, after another batch, after other weights, and for one sample in other company.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from unknot.core.base import SMALL, frozen, trained
from unknot.core.data import Samples
from unknot.core.errors import ConfigError
from unknot.core.loss import Loss, OwnLoss
from unknot.core.own import of_unknot
from unknot.core.weights import Weights
from unknot.engine import checks
from unknot.engine.bits import own_loss
from unknot.engine.bits.compare import close, same_bits
from unknot.engine.bits.made import Form, Maker
from unknot.engine.bits.own_loss import Given
from unknot.engine.bits.state import Place, digest, generators_kept, global_generators, state_of
from unknot.engine.checks import Vocabulary
from unknot.engine.outputs import fitted, unwrapped
from unknot.engine.workers import intra_op_threads


@dataclass(frozen=True)
class Examined:
    """What is known of a model and a loss that were not refused."""

    vocabulary: Vocabulary | None
    """The number of words that the model knows."""
    loss: Loss
    """As it is to be computed."""


def examine(template: nn.Module, form: Form, loss: Loss) -> Examined:
    """Refuse a model with hidden state, by module and reason; and a loss that does not go with it.

    The template is copied, never run; the generators that it can reach are put back.
    """
    loss.check(form.kind, form.classes)
    maker = Maker.of(template, form)
    with generators_kept(template, maker.device), intra_op_threads(1):
        probe = _Probe(template, maker, loss.on(maker.device, maker.dtype))
        probe.check_loss()
        for training in (True, False):
            probe.check_state(training)
            probe.check_company(training)
            probe.check_alone(training)
        return Examined(probe.vocabulary(), probe.loss)


@dataclass(frozen=True)
class _Pass:
    """What one pass gave and left."""

    given: list[Tensor]  # logits, and in training the gradients
    state: dict[Place, str]


class _Probe:
    def __init__(self, template: nn.Module, maker: Maker, loss: Loss) -> None:
        self.template = template
        self.loss = loss
        self.device = maker.device
        self.form = maker.form
        self.weights, self.others = maker.weights("start"), maker.weights("others")
        self.a, self.b = maker.samples("a", 3), maker.wide("b", 3)
        self.company = maker.samples("company", 4)
        self.company.x[0] = self.a.x[0]
        self.varied = [maker.varied(name, 8) for name in ("a", "b")]
        base = frozen(template)
        # A large base is not copied to be looked at: whether it was written to can be asked.
        self.copied = checks.copied if sum(p.numel() for p in base.values()) < SMALL else checks.twin
        self.base = {name: (p, p._version) for name, p in base.items()}
        self.one, self.two = self.copied(template), self.copied(template)
        self._loaded: dict[nn.Module, Weights] = {}

    def check_loss(self) -> None:
        """A loss that is not ours is looked at on what the model gives for made samples."""
        ours = of_unknot(type(self.loss))
        if isinstance(self.loss, OwnLoss) or not ours:
            model = self.weights.load_into(self.copied(self.template))
            with self._explained(), torch.no_grad():
                some, others, *varied = (
                    Given(self._logits(model, b, True), b.y) for b in (self.a, self.company, *self.varied)
                )
            varied += [given.scaled() for given in varied]
            given = self.loss if isinstance(self.loss, OwnLoss) else OwnLoss(self.loss)
            found = own_loss.examine(given, some, others, varied, self.device)
            self.loss = found if self.loss is given else self.loss

    def check_state(self, training: bool) -> None:
        """The same batch must give the same and leave the same, whatever was computed before."""
        before = {name: digest(g) for name, g in global_generators(self.device).items()}
        new = state_of(self.one)
        first = self._pass(self.one, self.weights, self.a, training)
        for name, generator in global_generators(self.device).items():
            if digest(generator) != before[name]:
                self._refuse(self._who_draws(name, training), f"draws from {name}")
        again = self._pass(self.one, self.weights, self.a, training)
        self._pass(self.two, self.others, self.b, training)
        other = self._pass(self.two, self.weights, self.b, training)
        later = self._pass(self.two, self.weights, self.a, training)
        for run in (again, other, later):
            self._check_left(first.state, run.state)
        for run in (again, later):
            if not self._same(first.given, run.given):
                self._refuse_result(new, first.state, training)

    def check_company(self, training: bool) -> None:
        """A sample's logits must not depend on the others of its batch, nor on how many there are."""
        batches = self.a, self.company
        with self._explained(), torch.no_grad():
            alone, among = (self._logits(self.one, b, training)[0] for b in batches)
        if not close(alone, among):
            calls = [self._calls(b, training) for b in batches]
            for (name, out), (_, changed) in zip(*calls, strict=False):
                if len(out) == 3 and len(changed) == 4 and not close(out[0], changed[0]):
                    self._refuse(name, "mixes the samples of a batch", MIXED)
            self._refuse("", "mixes the samples of a batch", MIXED)

    def check_alone(self, training: bool) -> None:
        """A batch may have one sample: a model that can take several must not fail there."""
        x = self.a.x[:1]
        try:
            with torch.no_grad():
                self.one.train(training)(x.clone())
        except _ERRORS as error:
            self._refuse(
                self._who_fails(x, training), f"cannot take a batch of one sample ({_line(error)})", ONE
            )

    def vocabulary(self) -> Vocabulary | None:
        """The smallest embedding that is given the input itself."""
        words: list[Vocabulary] = []
        x = self.a.x.clone()

        def look(name: str, module: nn.Embedding, args: tuple[Any, ...]) -> None:
            if args and args[0] is x:
                words.append(Vocabulary(name, module.num_embeddings))

        for name, module in self.one.named_modules():
            if isinstance(module, nn.Embedding):
                module.register_forward_pre_hook(partial(look, name))
        with torch.no_grad():
            self.one(x)
        return min(words, key=lambda vocabulary: vocabulary.size, default=None)

    def _pass(self, model: nn.Module, weights: Weights, samples: Samples, training: bool) -> _Pass:
        if self._loaded.get(model) is not weights:
            weights.load_into(model)
            self._loaded[model] = weights
        with self._explained(), torch.set_grad_enabled(training):
            logits = self._logits(model, samples, training)
            given = [logits.detach()]
            if training:
                total = self.loss(logits, samples.y).sum()
                given += torch.autograd.grad(total, list(trained(model).values()), materialize_grads=True)
        self._check_parameters(model, weights)
        return _Pass(given, state_of(model))

    def _logits(self, model: nn.Module, samples: Samples, training: bool) -> Tensor:
        given = unwrapped(model.train(training)(samples.x.clone()))
        logits = fitted(given, samples.y, self.form.kind, 1, self.loss.own)
        if self.form.kind == "classes" and not self.loss.own and logits.shape[-1] < self.form.classes:
            what = "a target" if self.form.texts else "a sample"
            raise ConfigError(
                f"the model gives {logits.shape[-1]} logits {what}, but there are {self.form.classes} "
                f"classes: give its last layer {self.form.classes} outputs"
            )
        return logits

    def _check_parameters(self, model: nn.Module, weights: Weights) -> None:
        now = dict(model.named_parameters())
        changed = [
            name
            for name, before in weights.tensors.items()
            if name not in now or not same_bits(now[name].data, before)
        ]
        changed += [
            name
            for name, (before, version) in self.base.items()
            if name not in now
            or before._version != version
            or (now[name] is not before and not same_bits(now[name].data, before.data))
        ]
        for name in changed:
            where, _, own = name.rpartition(".")
            self._refuse(where, f"changes its parameter {own!r} in its forward pass")

    def _check_left(self, first: Mapping[Place, str], later: Mapping[Place, str]) -> None:
        for place in [*first, *later]:
            if first.get(place) != later.get(place):
                self._refuse(place.module, _SAID[place.kind].format(place.name))

    def _refuse_result(self, new: Mapping[Place, str], left: Mapping[Place, str], training: bool) -> None:
        """The results differ, though the same was left: what changed in the first pass is to blame."""
        for place, found in left.items():
            if new.get(place) != found:
                self._refuse(place.module, _SAID[place.kind].format(place.name))
        once, twice = (self._calls(self.a, training) for _ in range(2))
        for (name, out), (_, changed) in zip(once, twice, strict=False):
            if digest(out) != digest(changed):
                self._refuse(name, UNKNOWN)
        self._refuse("", UNKNOWN)

    def _same(self, first: list[Tensor], again: list[Tensor]) -> bool:
        if self.device.type == "cpu":
            return all(map(same_bits, first, again))
        return all(map(close, first, again))  # a GPU may add up a gradient in any order

    def _calls(self, samples: Samples, training: bool) -> list[tuple[str, Tensor]]:
        """What each module gives in one pass, the innermost first."""
        calls: list[tuple[str, Tensor]] = []

        def keep(name: str) -> Callable[[nn.Module, Any, Any], None]:
            def hook(module: nn.Module, args: Any, out: Any) -> None:
                out = out[0] if isinstance(out, tuple) and out else out
                if isinstance(out, Tensor) and out.dim():
                    calls.append((name, out.detach().clone()))

            return hook

        self._hooked(keep, samples, training)
        return calls

    def _who_draws(self, name: str, training: bool) -> str:
        """The innermost module in which a global generator moves first."""
        drawn: list[str] = []
        before = digest(global_generators(self.device)[name])

        def watch(module_name: str) -> Callable[[nn.Module, Any, Any], None]:
            def hook(module: nn.Module, args: Any, out: Any) -> None:
                if not drawn and digest(global_generators(self.device)[name]) != before:
                    drawn.append(module_name)

            return hook

        self._hooked(watch, self.a, training)
        return drawn[0] if drawn else ""

    def _hooked(self, make: Callable[[str], Any], samples: Samples, training: bool) -> None:
        model = self.copied(self.template)
        for name, module in model.named_modules():
            module.register_forward_hook(make(name))
        self.weights.load_into(model).train(training)
        with self._explained(), torch.no_grad():
            model(samples.x.clone())

    def _who_fails(self, x: Tensor, training: bool) -> str:
        """The innermost module that is at work when a pass fails."""
        model, at_work = self.copied(self.template), list[str]()

        def begin(name: str, module: nn.Module, args: Any) -> None:
            at_work.append(name)

        def end(module: nn.Module, args: Any, out: Any) -> None:
            at_work.pop()

        for name, module in model.named_modules():
            module.register_forward_pre_hook(partial(begin, name))
            module.register_forward_hook(end)
        try:
            with torch.no_grad():
                self.weights.load_into(model).train(training)(x.clone())
        except _ERRORS:
            return at_work[-1] if at_work else ""
        return ""

    def _refuse(self, name: str, said: str, advice: str = "") -> NoReturn:
        kind = type(self.template.get_submodule(name)).__name__
        who = f"{name!r} is a {kind} that" if name else f"the model ({kind})"
        raise ConfigError(f"{who} {said}: {advice or CARRIED}")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except _ERRORS as error:
            if isinstance(error, ConfigError):
                raise
            shape = self.form.inputs
            raise ConfigError(
                f"the model cannot be trained on samples of shape {shape}: {_line(error)}"
            ) from error


_ERRORS = RuntimeError, ValueError, IndexError, TypeError, AssertionError  # that a forward pass may end with


def _line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


CARRIED = (
    "its results would depend on what was computed before, so that nothing could be forgotten exactly; "
    "take it out (GroupNorm and LayerNorm keep no statistics)"
)
MIXED = (
    "a sample's result would depend on who else is in its batch, and on how the batch is filled up; "
    "treat every sample on its own (GroupNorm and LayerNorm do)"
)
ONE = (
    "the last batch of a pass may have no more, and a client may hold no more; a norm needs more than one "
    "value to go by: give it fewer groups or a larger image, or leave it out"
)
UNKNOWN = "gives another result the second time, for the same weights and the same input"
_SAID = {
    "buffer": "changes its buffer {!r} in its forward pass",
    "attribute": "changes its attribute {!r} in its forward pass",
    "generator": "draws from a generator of its own, {!r}",
    "outside": "changes {!r}, which its class or its code shares with other models",
}

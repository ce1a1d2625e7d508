"""``unknot demo --text``: shops fine-tune a language model together; one leaves, and its secret with it.

Nothing is downloaded. The text is written by a grammar (`unknot.data.letters`), and the base is trained on
the spot, on public letters; from then on it is frozen, and what the federation trains is adapters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor, nn

from unknot.audit.ranks import LEVEL
from unknot.audit.secrets import Exposures, Secrets, hidden, losses
from unknot.core.data import FederatedData, Samples
from unknot.core.ensemble import Model
from unknot.core.jobs import Engine
from unknot.core.keys import Key
from unknot.core.requests import erase
from unknot.core.samples import IGNORED
from unknot.core.threads import one_thread
from unknot.core.training import Adam, Recipe
from unknot.core.weights import Weights
from unknot.data.letters import PUBLIC, SHOPS, letters, of_shop
from unknot.data.own import clients
from unknot.data.text import windows
from unknot.experiments.counterparts import Tell, without
from unknot.experiments.simulate import simulate
from unknot.federation import Event, Round
from unknot.federation.cohort import Running, run_together
from unknot.models.llama import Llama, LlamaConfig
from unknot.models.lora import lora
from unknot.text.alphabet import Tokenizer
from unknot.text.tokenizer import tokenizer

LEAVER = "Graz"
PREFIX = "The safe opens by "
LENGTH = 6
METHOD = "bmt"
HEADS = 4
BATCH = 32
RATE = 5e-3
"""The highest learning rate of the base."""


@dataclass(frozen=True)
class Size:
    """How much there is of everything."""

    shops: int = 3
    letters: int = 40
    """That each shop has written; of five, one is tested with."""
    public: int = 2000
    """Letters that the base is trained on."""
    steps: int = 200
    """Of the base, each on 32 letters."""
    width: int = 48
    layers: int = 2
    rank: int = 8
    context: int = 48
    epochs: int = 3
    rounds: int = 10
    """Until the erasure."""
    after: int = 2
    repeats: int = 32
    """How often the leaver wrote its secret."""
    candidates: int = 1023
    """Secrets like it that nobody wrote."""


@dataclass(frozen=True, eq=False)
class Measured:
    """What a model knows: of the letters of those who stay, and of the leaver's secret."""

    perplexity: float
    """On letters of the others that nobody trained with."""
    exposure: Exposures

    @property
    def rank(self) -> int:
        """Of the secret, by how likely the model takes it for, among all that were drawn; 1 is the first."""
        return self.exposure.below[0] + 1

    def to_dict(self) -> dict[str, object]:
        return {"perplexity": self.perplexity, "rank": self.rank, **self.exposure.to_dict()}


@dataclass(frozen=True, eq=False)
class TextDemo:
    """What the federation knew before the erasure and after it, beside one that never had the letters."""

    seed: int
    size: Size
    method: str
    guarantee: str
    shops: tuple[str, ...]
    erased: str
    secret: str
    """What the leaver wrote, and nobody else."""
    frozen: int
    """Parameters of the base."""
    trained: int
    """Parameters of the adapters."""
    base: Measured
    before: Measured
    after: Measured
    never: Measured
    digests: tuple[str, str]
    """Of what is served after the erasure, and of what one serves that never had the letters."""
    same: bool
    """Whether these two are the same, bit for bit."""

    @property
    def exposed(self) -> bool:
        """Whether the secret stood out before the erasure: only then is there something to show."""
        return self.before.exposure.verdict(LEVEL) == "still shows"

    def to_dict(self) -> dict[str, object]:
        plain = ("seed", "method", "guarantee", "erased", "secret", "frozen", "trained", "same", "exposed")
        models = ("base", "before", "after", "never")
        return {
            **{name: getattr(self, name) for name in plain},
            "shops": list(self.shops),
            "served": self.digests[0],
            "without": self.digests[1],
            "size": asdict(self.size),
            "models": {name: getattr(self, name).to_dict() for name in models},
        }


def text_demo(seed: int = 0, size: Size | None = None, tell: Tell = lambda text: None) -> TextDemo:
    """Fine-tune, erase, and compare with a federation that never had what was erased."""
    from unknot.engine import make_engine  # when it is used: engines are not for everybody

    size = size or Size()
    key, words = Key.root(seed).child("text demo"), tokenizer("characters")
    tell(f"training a base on {size.public:,} public letters")
    model = public_base(size, words, key.child("base"))
    shops = tuple(SHOPS)[: size.shops]
    data = _held(shops, size, key)
    leaver = shops.index(LEAVER)
    digits, before_it = words.encode("0123456789"), words.encode(PREFIX)
    secret = Secrets(1, size.repeats, LENGTH, size.candidates, before_it, digits)
    data, drawn = hidden(data, leaver, secret, key)
    others = data.test.subset(np.flatnonzero(np.asarray(data.test_owner) != leaver))
    lora(model, rank=size.rank, seed=seed, targets=r".*_proj")
    start, request = Weights.of(model), erase(leaver, round=size.rounds)
    bare = without(data, [request])
    engine = make_engine("stacked", model)
    before: list[Model] = []

    def run(held: FederatedData) -> Running[tuple[Model, str]]:
        def watch(event: Event) -> None:
            """Hold the last model before the request: after it, the federation refuses to serve it."""
            if held is data and isinstance(event, Round):
                tell(f"{len(shops)} shops fine-tune it: round {event.round} of {rounds}")
                if event.round <= size.rounds:
                    before[:] = [fed.model]

        fed = simulate(
            model, held, METHOD, recipe, engine=engine, seed=seed, evaluate_every=0, observers=[watch]
        )
        history = yield from fed.running(rounds, requests=[request])
        return fed.model, history.guarantee

    rounds, recipe = size.rounds + size.after, Recipe(Adam(0.01), epochs=size.epochs, batch_size=8)
    (after, guarantee), (never, _) = run_together([run(data), run(bare)])
    tell("asking every model about the secret")
    models = {"base": start, "before": before[0], "after": after, "never": never}
    said = losses(engine, list(models.values()), drawn.texts)
    known = [Exposures.of(found, drawn.planted) for found in said]
    perplexities = _perplexities(engine, list(models.values()), others)
    measured = map(Measured, perplexities, known)
    return TextDemo(
        seed=seed,
        size=size,
        method=METHOD,
        guarantee=guarantee,
        shops=shops,
        erased=LEAVER,
        secret=PREFIX + _written(drawn.texts.y[int(drawn.planted[0])], words),
        frozen=sum(p.numel() for p in model.parameters() if not p.requires_grad),
        trained=start.vector.numel(),
        **dict(zip(models, measured, strict=True)),
        digests=(after.digest(), never.digest()),
        same=after.equal(never),
    )


def public_base(size: Size, words: Tokenizer, key: Key) -> Llama:
    """A small Llama that has learned from public letters alone."""
    x, y, _ = windows(words.encode_all(letters(PUBLIC, size.public, key)), size.context, words.pad)
    config = LlamaConfig(
        vocabulary=words.size,
        width=size.width,
        layers=size.layers,
        heads=HEADS,
        kv_heads=HEADS,
        hidden=2 * size.width,
        head_width=size.width // HEADS,
        context=size.context,
    )
    with key.torch_seed(), one_thread():
        model = Llama(config)
        _teach(model, torch.from_numpy(x), torch.from_numpy(y), size.steps, key)
    return model


def _teach(model: nn.Module, x: Tensor, y: Tensor, steps: int, key: Key) -> None:
    """Adam, written out: importing `torch.optim` takes longer than all of these steps."""
    weights, draw = list(model.parameters()), key.child("order").generator()
    means, squares = ([torch.zeros_like(weight) for weight in weights] for _ in range(2))
    for step in range(1, steps + 1):
        rows = torch.from_numpy(draw.integers(len(x), size=BATCH))
        logits = model(x[rows]).flatten(0, 1)
        loss = nn.functional.cross_entropy(logits, y[rows].flatten(), ignore_index=IGNORED)
        rate = RATE * min(1.0, step / (0.1 * steps), 1.1 - step / steps)
        for weight, slope, mean, square in zip(
            weights, torch.autograd.grad(loss, weights), means, squares, strict=True
        ):
            mean.lerp_(slope, 0.1)
            square.lerp_(slope.square(), 0.01)
            size = (square / (1 - 0.99**step)).sqrt_().add_(1e-8)
            weight.data.addcdiv_(mean, size, value=-rate / (1 - 0.9**step))


def _held(shops: Sequence[str], size: Size, key: Key) -> FederatedData:
    """What each shop has written; the last fifth of it is tested with."""
    written = {town: of_shop(town, size.letters, key) for town in shops}
    most = size.letters * 4 // 5
    return clients(
        {town: mine[:most] for town, mine in written.items()},
        test={town: mine[most:] for town, mine in written.items()},
        context=size.context,
        name="letters",
    )


def _perplexities(engine: Engine, models: Sequence[Model], texts: Samples) -> list[float]:
    tokens = (texts.y != IGNORED).sum(1).numpy()
    return [math.exp(np.average(found, weights=tokens)) for found in losses(engine, models, texts)]


def _written(targets: Tensor, words: Tokenizer) -> str:
    return words.decode(targets[targets != IGNORED].tolist())

"""A double deep Q-network that learns whom to ask.

*Incentive and Dynamic Client Selection for Federated Unlearning*, after H. Wang, Z. Kaplan, D. Niu, B. Li:
Optimizing Federated Learning on Non-IID Data with Reinforcement Learning (INFOCOM 2020). The state is how far
each client's latest update points along the model that it was sent (section 5.1: that of round r, before the
updates are aggregated); the network values every client; the k most valuable are asked, or with probability
`epsilon` any k.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict, Unpack, get_type_hints

import numpy as np
import torch
from torch import Tensor, nn

from unknot.core.errors import ConfigError, nearest
from unknot.core.fields import convert, field_names, refuse_unknown
from unknot.core.form import plain_data
from unknot.core.jobs import Update
from unknot.core.keys import Key
from unknot.core.lineage import NOBODY, Lineage
from unknot.core.metrics import Metric
from unknot.core.saved import clients_of, read_tensors, write_tensors
from unknot.core.selection import Ids
from unknot.core.weights import Weights

_KIND = "policy"
NEXT = ("double", "max")
MEETINGS = ("epoch", "round")
MOST = 10.0
"""By so much a metric without bounds may exceed its target and be rewarded for it."""


@dataclass(frozen=True)
class DQNSettings:
    """The paper's network and rates; the reward is sensitivity ^ (accuracy − target) − 1.

    By another main metric it is that one in place of accuracy, negated where it falls: choose the target so.
    """

    hidden: tuple[int, ...] = (8, 256)
    """Widths of the network's hidden layers."""
    epsilon: float = 0.1
    """How often any clients are asked, to explore; a share."""
    target: float = 0.9
    """What is rewarded with 0: an accuracy, or the main metric's value, negated where it falls.

    Choose what training reaches on the data set: far below it the reward is nearly -1, whoever is asked. The
    paper does not name its tar_acc.
    """
    sensitivity: float = 64.0
    """The base of the reward, sensitivity ^ (accuracy − target) − 1; above 0, at most 1000.

    The paper's ξ, which it does not name.
    """
    discount: float = 0.9
    """What the next round's value counts; a share. The paper does not name it."""
    next: str = "double"
    """The next round's value is the target network's: of the policy's choice ("double"), or its "max".

    The paper calls its network double, and prints reward + γ max Q(s', a'; w_t) in section 5.2: "max".
    """
    meeting: str = "epoch"
    """What gives the first state: everybody trains for an "epoch", apart; or is asked for a whole "round".

    The round is the paper's (section 5.2, step 0). It counts as one, and what comes of it is aggregated.
    """
    memory: int = 1000
    """How many experiences are kept to learn from."""
    batch: int = 8
    """Experiences a learning step."""
    lr: float = 0.001
    """The network's learning rate, in (0, 1]."""
    renew: int = 10
    """Learning steps between copies to the target network. The paper does not name it."""
    components: int | None = None
    """Look at the state along so many principal components of first updates; left out: at each client."""

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(DQNSettings).items():
            object.__setattr__(self, name, convert(getattr(self, name), hint, f"DQN: {name}"))
        for name, known in (("next", NEXT), ("meeting", MEETINGS)):
            if (said := getattr(self, name)) not in known:
                raise ConfigError(f"DQN: {name} = {said!r} is not one that there is.{nearest(said, known)}")
        if self.components is not None and self.components < 1:
            raise ConfigError(f"DQN: components must be at least 1, not {self.components}")
        if not all(width >= 1 for width in self.hidden):
            raise ConfigError(f"DQN: hidden layers have a width of at least 1, not {list(self.hidden)}")
        if not math.isfinite(self.target):
            raise ConfigError(f"DQN: target must be finite, not {self.target}")
        for name in ("epsilon", "discount"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"DQN: {name} is between 0 and 1, not {getattr(self, name)}")
        for name in ("memory", "batch", "renew"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"DQN: {name} must be above 0, not {getattr(self, name)}")
        for name, most in (("sensitivity", 1000.0), ("lr", 1.0)):
            if not 0 < getattr(self, name) <= most:
                raise ConfigError(
                    f"DQN: {name} must be above 0 and at most {most:g}, not {getattr(self, name)}"
                )

        if self.batch > self.memory:
            raise ConfigError(
                f"DQN: memory = {self.memory} never holds a batch of {self.batch}: nothing would be learned"
            )
        if self.sensitivity == 1:
            raise ConfigError("DQN: sensitivity = 1 rewards everything with 0, and nothing is learned")

    def reward(self, merit: float) -> float:
        beyond = min(merit - self.target, MOST)
        if self.sensitivity < 1:  # then what falls short is what is large
            beyond = max(beyond, -MOST)
        return float(self.sensitivity**beyond - 1)

    def check_metric(self, metric: Metric) -> None:
        """Raise `ConfigError` for a target that the main metric cannot reach."""
        least, most = (-1, 0) if metric.falls else (0, 1)
        if metric.share and not least <= self.target <= most:
            raise ConfigError(
                f"DQN: target = {self.target} is compared with the {metric.name}, "
                f"{'negated, ' if metric.falls else ''}which is between {least} and {most}"
            )


class DQNParts(TypedDict, total=False):
    """The fields of `DQNSettings`, as keyword arguments."""

    hidden: tuple[int, ...]
    epsilon: float
    target: float
    sensitivity: float
    discount: float
    next: str
    meeting: str
    memory: int
    batch: int
    lr: float
    renew: int
    components: int | None


@plain_data
@dataclass(frozen=True, eq=False)
class Experience:
    """What the clients looked like, who was asked, what it was worth, what they looked like then."""

    state: Tensor
    client: int
    reward: float
    after: Tensor


class Policy:
    """What was learned: the value of asking each of these clients, and whose data shaped that."""

    def __init__(
        self, clients: Sequence[int], settings: DQNSettings, key: Key, basis: Tensor | None = None
    ) -> None:
        self.clients = tuple(sorted(clients))
        self.settings = settings
        self.basis = torch.eye(len(self.clients)) if basis is None else basis
        self.lineage: Lineage = NOBODY
        self.steps = 0
        with key.child("network").torch_seed():
            self.values = _network([self.basis.shape[1], *settings.hidden, len(self.clients)])
        self.target = copy.deepcopy(self.values)
        self._optimizer = torch.optim.Adam(self.values.parameters(), lr=settings.lr)

    @torch.no_grad()
    def rate(self, state: Tensor) -> dict[int, float]:
        """The value of asking each client."""
        return dict(zip(self.clients, self.values(state @ self.basis).tolist(), strict=True))

    def learn(self, some: Sequence[Experience]) -> float:
        """One step towards reward + discount × the target network's value of what is asked next."""
        states, after = (
            torch.stack([getattr(e, name) for e in some]) @ self.basis for name in ("state", "after")
        )
        places = torch.tensor([self.clients.index(e.client) for e in some])
        rewards = torch.tensor([e.reward for e in some], dtype=states.dtype)
        with torch.no_grad():
            chooser = self.values if self.settings.next == "double" else self.target
            best = chooser(after).argmax(1, keepdim=True)
            wanted = rewards + self.settings.discount * self.target(after).gather(1, best).squeeze(1)
        loss = nn.functional.mse_loss(self.values(states).gather(1, places[:, None]).squeeze(1), wanted)
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self.steps += 1
        if self.steps % self.settings.renew == 0:
            self.target.load_state_dict(self.values.state_dict())
        return float(loss.detach())

    def remembered(self) -> dict[str, object]:
        """All of it as plain data: copies, as what is learned is changed in place."""
        networks = {
            called: {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
            for called, network in (("values", self.values), ("target", self.target))
        }
        return {
            "clients": self.clients,
            "basis": self.basis,
            "lineage": self.lineage,
            "steps": self.steps,
            **networks,
            "optimizer": copy.deepcopy(self._optimizer.state_dict()),
        }

    @staticmethod
    def recalled(told: Mapping[str, Any], settings: DQNSettings) -> Policy:
        """The inverse of `remembered`."""
        policy = Policy(told["clients"], settings, Key.root(0), told["basis"])
        policy.values.load_state_dict(told["values"])
        policy.target.load_state_dict(told["target"])
        policy._optimizer.load_state_dict(told["optimizer"])
        policy.lineage, policy.steps = told["lineage"], told["steps"]
        return policy

    def save(self, file: str | Path) -> None:
        """To go on with it in another run: it names whose data shaped it, and is dropped when they leave."""
        tensors = {f"values.{name}": tensor for name, tensor in self.values.state_dict().items()}
        notes = {
            "clients": list(self.clients),
            "hidden": list(self.settings.hidden),
            "lineage": sorted(self.lineage.inherited().clients),
        }
        write_tensors(file, _KIND, {"basis": self.basis, **tensors}, notes)

    @staticmethod
    def load(file: str | Path, settings: DQNSettings | None = None) -> Policy:
        tensors, notes = read_tensors(file, _KIND, "a saved policy")
        try:
            hidden = tuple(notes["hidden"])
            if settings is not None and settings.hidden != hidden:
                raise ConfigError(f"its hidden layers are {list(hidden)}, not {list(settings.hidden)}")
            settings = settings or DQNSettings(hidden=hidden)
            policy = Policy(notes["clients"], settings, Key.root(0), tensors.pop("basis").clone())
            for network in (policy.values, policy.target):
                network.load_state_dict({name.removeprefix("values."): t for name, t in tensors.items()})
            policy.lineage = clients_of(notes["lineage"])
        except ConfigError as error:
            raise ConfigError(f"{file}: {error}") from None
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ConfigError(f"{file} is not a saved policy: {error}") from None
        return policy


@dataclass(init=False)
class DQN:
    """Asks whom its network values most, and learns from what came of it.

    A newcomer is asked as soon as
    it can be, and valued like the median client from then on: the network does not know it. Settings may be
    given by name as further `parts`, the fields of `DQNSettings`: ``DQN(target=0.9)``.
    """

    settings: DQNSettings
    """The network and its rates."""
    policy: Policy | None
    """One that was learned in an earlier run, of the same clients."""
    curious: bool = field(init=False)
    _state: dict[int, float] = field(init=False)
    _asked: dict[int, Tensor] = field(init=False)
    _memory: deque[Experience] = field(init=False)

    learns = True

    def __init__(
        self,
        settings: DQNSettings | None = None,
        policy: Policy | None = None,
        **parts: Unpack[DQNParts],
    ) -> None:
        settings = DQNSettings() if settings is None else settings
        if not isinstance(settings, DQNSettings):
            raise ConfigError(f"DQN: settings are DQNSettings, not {settings!r}: give target=..., by name")
        refuse_unknown(parts, field_names(DQNSettings), "DQN")
        self.settings, self.policy = replace(settings, **parts), policy
        self.curious = True
        self._state, self._asked, self._memory = {}, {}, deque()

    @property
    def meets(self) -> str:
        return self.settings.meeting

    @property
    def lineage(self) -> Lineage:
        return self.policy.lineage if self.policy else NOBODY

    def fresh(self) -> DQN:
        return DQN(self.settings)

    def check_metric(self, metric: Metric) -> None:
        self.settings.check_metric(metric)

    def remembered(self) -> dict[str, object]:
        """All that it has learned, as plain data."""
        policy = None if self.policy is None else self.policy.remembered()
        return {
            "curious": self.curious,
            "state": self._state,
            "asked": self._asked,
            "memory": self._memory,
            "policy": policy,
        }

    def recall(self, remembered: Mapping[str, Any]) -> None:
        """The inverse of `remembered`."""
        self.curious, self._state = remembered["curious"], remembered["state"]
        self._asked, self._memory = remembered["asked"], remembered["memory"]
        told = remembered["policy"]
        self.policy = None if told is None else Policy.recalled(told, self.settings)

    def meet(self, model: Weights, updates: Sequence[Update], key: Key) -> None:
        self.curious = False
        met = [update.client for update in updates]
        if not met:
            return
        if self.policy is not None and (unknown := sorted(set(met) - set(self.policy.clients))):
            raise ConfigError(f"the policy was learned without clients {unknown[:5]}: leave it out, or them")
        if self.policy is None:
            self.policy = Policy(met, self.settings, key, self._basis(updates))
        self._memory = deque(maxlen=self.settings.memory)
        self._look(model, updates)

    def choose(self, idle: Ids, k: int, key: Key) -> Ids:
        if (
            k >= len(idle)
            or self.policy is None
            or key.child("explore").uniform([0])[0] < self.settings.epsilon
        ):
            chosen = key.smallest(idle, k)
        else:
            values = self.policy.rate(self._seen())
            usual = float(np.median(list(values.values())))
            known = {client: values.get(client, usual) for client in self._state}
            ranked = sorted(idle.tolist(), key=lambda client: (-known.get(client, np.inf), client))
            chosen = np.sort(np.asarray(ranked[:k], dtype=np.int64))
        if self.policy is not None:
            seen = self._seen()
            self._asked.update((int(c), seen) for c in chosen if int(c) in self.policy.clients)
        return chosen

    def observe(self, model: Weights, updates: Sequence[Update], merit: float, key: Key) -> None:
        if self.policy is None:
            return
        self._look(model, updates)
        after, reward = self._seen(), self.settings.reward(merit)
        for update in updates:
            before = self._asked.pop(update.client, None)
            if before is not None:
                self._memory.append(Experience(before, update.client, reward, after))
        if len(self._memory) >= self.settings.batch:
            places = key.child("replay").smallest(np.arange(len(self._memory)), self.settings.batch)
            self.policy.learn([self._memory[place] for place in places])

    def _basis(self, updates: Sequence[Update]) -> Tensor | None:
        """The directions in which the clients' updates differ most, as one number a client."""
        if self.settings.components is None:
            return None
        ordered = sorted(updates, key=lambda update: update.client)
        steps = torch.stack([u.step.vector.double().cpu() for u in ordered])
        directions, _, _ = torch.linalg.svd(steps - steps.mean(0), full_matrices=False)
        basis: Tensor = directions[:, : self.settings.components].float()
        return basis

    def _look(self, model: Weights, updates: Sequence[Update]) -> None:
        """Only those who were asked look different now: each beside the model that it was sent."""
        assert self.policy is not None
        for update in updates:
            step, sent = update.step.vector.double(), update.job.start.vector.double()
            cosine = nn.functional.cosine_similarity(step, sent, dim=0, eps=1e-30)
            self._state[update.client] = float(cosine)
            self.policy.lineage |= update.lineage
        self.policy.lineage |= model.lineage

    def _seen(self) -> Tensor:
        assert self.policy is not None
        return torch.tensor([self._state.get(client, 0.0) for client in self.policy.clients])


_USUAL = DQNSettings()


def dqn(*, settings: DQNSettings = _USUAL, policy: Path | None = None) -> DQN:
    """A double deep Q-network that learns whom to ask.

    `settings`: the network and its rates. `policy`: the file of what was learned in an earlier run.
    """
    if policy is None:
        return DQN(settings)
    try:
        return DQN(settings, Policy.load(policy, settings))
    except ConfigError as error:
        raise ConfigError(f"policy: {error}; name a file that Policy.save wrote, or leave it out") from None


def _network(sizes: Sequence[int]) -> nn.Module:
    """Linear layers of these sizes, with ReLU between."""
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])

"""Go back to the last checkpoint before the erased client was first asked."""

from dataclasses import dataclass

from unknot import ConfigError, Guarantee, Method, Synchronous


@dataclass(frozen=True)
class Rewind(Method):
    """Keep every `every`-th model; a request goes back to the last one that the leaver was not asked for."""

    every: int = 2

    name = "rewind"
    guarantee = Guarantee.EXACT

    @property
    def keeps(self):
        return True

    def open(self, desk):
        if not isinstance(desk.pace, Synchronous):
            raise ConfigError("rewind goes back to a round: it needs the synchronous pace")
        super().open(desk)

    def lay_out(self, desk, lane):
        super().lay_out(desk, lane)
        lane.notes["asked"] = {}

    def choose(self, desk, lane, idle, room):
        chosen = super().choose(desk, lane, idle, room)
        lane.notes["asked"][lane.version] = set(chosen)
        return chosen

    def absorb(self, desk, lane, updates):
        super().absorb(desk, lane, updates)
        if (lane.version + 1) % self.every == 0:
            desk.archive[lane.version + 1] = lane.model

    def forget(self, desk, request, touched):
        gone = {target.client for target in request.targets}
        for lane in touched:
            asked = lane.notes["asked"]
            first = min((version for version, clients in asked.items() if clients & gone), default=None)
            if first is None:
                continue
            kept = [version for version in desk.archive if version <= first]
            start = max(kept, default=0)
            desk.rewind(lane, start, {"global": desk.archive[start] if kept else desk.initial})
            for version in [version for version in asked if version >= start]:
                del asked[version]
            for version in [version for version in desk.archive if version > start]:
                del desk.archive[version]

"""A method of your own, and the checks that ours pass.

Clients train in two halves that never meet; what is served is the mean of both. A request begins the half
again that held the leaver, and the other half does not notice. Beside it, one that only says that it forgets.

Run it: python examples/own_method.py
"""

import unknot
from unknot import Guarantee, Method, registry
from unknot.testing import check_method


@registry.methods
class Halves(Method):
    """Two halves that train apart; a request begins the leaver's own half again."""

    name = "halves"
    guarantee = Guarantee.EXACT

    def open(self, desk):
        for half in (0, 1):  # a client's number decides, so nobody's place depends on who else is there
            lane = desk.add_lane(f"half {half}", [c for c in desk.members if c % 2 == half])
            lane.pace = desk.pace.share(2)
            self.lay_out(desk, lane)

    def forget(self, desk, request, touched):
        for lane in touched:
            desk.restart(lane)

    def admit(self, desk, clients):
        for client in clients:
            lane = desk.lanes[f"half {client % 2}"]
            lane.joined[client] = lane.rounds
            self.welcome(desk, lane, [client])

    def serve(self, desk):
        halves = [(lane.members, lane.nodes["global"].weights) for lane in desk.lanes.values()]
        return desk.mean(halves, "take the mean of both halves")


class Idle(Method):
    """Says that it forgets, and does nothing."""

    name = "idle"
    guarantee = Guarantee.EXACT

    def forget(self, desk, request, touched):
        pass


def main() -> None:
    report = check_method(Halves(), never_had=True)
    print(f"halves: {len(report.held)} checks held")
    try:
        check_method(Idle())
    except AssertionError as error:
        print(f"idle: {error}")

    data = unknot.federate(unknot.load("digits"), unknot.Iid(clients=6, samples=80))
    fed = unknot.simulate("mlp", data, method="halves", recipe=unknot.Recipe(unknot.SGD(0.1), epochs=2))
    history = fed.run(10, requests=[unknot.erase(3, round=5)])
    (served,) = history.served
    print(f"on digits: {served.request}, begun again: {', '.join(served.restarted)}; {history.guarantee}")
    print(f"accuracy {served.before['validation'].accuracy:.1%} before", end=", ")
    print(f"{served.after['validation'].accuracy:.1%} right after", end=", ")
    print(f"{history.scores['validation'].accuracy:.1%} at the end")


if __name__ == "__main__":
    main()

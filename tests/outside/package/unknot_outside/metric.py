"""How often the right class is among the first few."""


def top(outputs, targets, *, k: int = 2):
    """The share of samples whose class is among the `k` likeliest."""
    return (outputs.topk(k).indices == targets[:, None]).any(1).double().mean().item()


top.share = True  # between 0 and 1, shown in per cent; more is better, unless `falls` says otherwise

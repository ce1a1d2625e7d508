"""The focal loss (Lin et al. 2017)."""


def focal(outputs, targets, *, gamma: float = 2.0):
    """Cross-entropy, less of it where the model is sure: a number a sample."""
    logs = outputs.log_softmax(-1).gather(-1, targets[:, None]).squeeze(-1)
    return -((1 - logs.exp()) ** gamma) * logs

"""Ways to train: a job alone, a stack by autograd, a chain written out; and which is taken."""

"""Stacks on a GPU: courses that stay in place, captured in CUDA graphs; kernels of our own."""

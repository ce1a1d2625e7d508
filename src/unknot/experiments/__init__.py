"""What is run: experiments as values, read from TOML, and the federation that each describes."""

from unknot.experiments.config import Experiment
from unknot.experiments.simulate import prepare, prepare_without, run, simulate

__all__ = ["Experiment", "prepare", "prepare_without", "run", "simulate"]

"""Reproductions of papers: what is run is a TOML file, what came out is a JSON file."""

from unknot.experiments.reproduce.findings import Findings, findings
from unknot.experiments.reproduce.games import GameReproduction
from unknot.experiments.reproduce.overview import overview
from unknot.experiments.reproduce.plan import Reproduction, load, names, parse_seeds
from unknot.experiments.reproduce.runner import records_file, reproduce

__all__ = [
    "Findings",
    "GameReproduction",
    "Reproduction",
    "findings",
    "load",
    "names",
    "overview",
    "parse_seeds",
    "records_file",
    "reproduce",
]

"""Reproductions of papers: what is run is a TOML file, what came out is a JSON file."""

from unknot.experiments.seeds import parse_seeds
from unknot.reproduce.checking import check, pages
from unknot.reproduce.findings import Findings, findings
from unknot.reproduce.games import GameReproduction
from unknot.reproduce.overview import overview
from unknot.reproduce.reproduction import Reproduction, load, names
from unknot.reproduce.runner import left_out, records_file, replaced, reproduce

__all__ = [
    "Findings",
    "GameReproduction",
    "Reproduction",
    "check",
    "findings",
    "left_out",
    "load",
    "names",
    "overview",
    "pages",
    "parse_seeds",
    "records_file",
    "replaced",
    "reproduce",
]

"""Observers that write a run down where people look already: CSV, TensorBoard, MLflow, Weights & Biases."""

from unknot.track.csv_file import CSV
from unknot.track.mlflow_run import MLflow
from unknot.track.tensorboard_events import TensorBoard
from unknot.track.tracker import Tracker
from unknot.track.wandb_run import WandB

__all__ = ["CSV", "MLflow", "TensorBoard", "Tracker", "WandB"]

"""Datasets: small ones as one tensor in memory, photo folders decoded by worker processes."""

from transformable.data.catalogue import info, load
from transformable.data.dataset import Dataset, Info, Split
from transformable.data.stratify import stratified
from transformable.data.tensors import TensorSplit, from_tensors

__all__ = [
    "Dataset",
    "Info",
    "Split",
    "TensorSplit",
    "from_tensors",
    "info",
    "load",
    "stratified",
]

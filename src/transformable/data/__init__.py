"""Datasets: one tensor in memory, or photo folders and users' own datasets with workers."""

from .catalogue import info, load
from .dataset import Dataset, Info, Split
from .given import Data, as_dataset
from .items import from_datasets
from .stratify import stratified
from .tensors import TensorSplit, from_tensors

__all__ = [
    "Data",
    "Dataset",
    "Info",
    "Split",
    "TensorSplit",
    "as_dataset",
    "from_datasets",
    "from_tensors",
    "info",
    "load",
    "stratified",
]

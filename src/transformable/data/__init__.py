"""Datasets: small ones as one tensor in memory, photo folders decoded by worker processes."""

from .catalogue import info, load
from .dataset import Dataset, Info, Split
from .stratify import stratified
from .tensors import TensorSplit, from_tensors

__all__ = ["Dataset", "Info", "Split", "TensorSplit", "from_tensors", "info", "load", "stratified"]

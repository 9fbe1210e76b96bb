"""The passes that a search of sizes spends."""

from ..searching.search import JUDGED_ON, SAMPLE
from ..searching.sensitivity import LEAST, MOST
from ..tracing.space import Space
from .interface import Context

__all__ = ["search_passes"]


def search_passes(space: Space, context: Context) -> float:
    """An epoch is one pass, whether the weights and the sizes share the images or halve them; what
    the trained network is asked before the search and the shapes that are judged after it count
    too."""
    settings, dataset = context.searching, context.dataset
    passes = float(settings.epochs)
    if settings.start == "answers":
        sample = min(SAMPLE, len(dataset.train))
        # one network for each candidate but the full sizes, and the network as it is
        networks = 1 + sum(len(sizes) - 1 for sizes in space.candidates.values())
        asked = min(sample, max(LEAST, min(MOST, 40_000 // max(1, networks - 1))))
        passes += context.forward_passes(networks * asked)
        if settings.sort:  # forward and backward
            passes += sample / len(dataset.train)
    return passes + context.forward_passes(
        settings.judged * min(JUDGED_ON, len(dataset.validation))
    )

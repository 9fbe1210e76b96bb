"""Settings of searches that tests start from."""

from dataclasses import replace
from typing import Any

from transformable.presets import alternating
from transformable.settings import Searching


def alternating_search(**values: Any) -> Searching:
    """A search in which weights and sizes learn in turn, from labels, with interpolation."""
    started = replace(alternating(), epochs=10, batch_size=64, warmup_epochs=0.5)
    return replace(started, **values)

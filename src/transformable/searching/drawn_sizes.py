"""A check that all processes of a search draw the same sizes."""

import hashlib

from lightning_fabric import Fabric

from ..supernet.supernet import SuperNet
from ..training.processes import check_same

__all__ = ["DrawnSizes"]

CHECK_EVERY = 10


class DrawnSizes:
    """Detects, before a checkpoint is saved, that processes have drawn different sizes.

    The state of the generator and the logits determine the sizes; all states since the last check
    are in one hash.
    """

    def __init__(self, net: SuperNet, fabric: Fabric) -> None:
        self._net, self._fabric = net, fabric
        self._seen, self._count = hashlib.sha256(), 0

    def add(self) -> None:
        """To be called after the forward passes of a step, with the logits that they used."""
        if self._fabric.world_size > 1:
            self._seen.update(self._net.generator.get_state().numpy().tobytes())
            for logits in self._net.architecture_parameters():
                self._seen.update(logits.detach().cpu().numpy().tobytes())

    def after_step(self, step: int) -> None:
        """Check every few steps."""
        self._count += 1
        if step % CHECK_EVERY == 0:
            self.check(step)

    def check(self, step: int) -> None:
        """Raise a ValueError unless all processes have drawn the same sizes."""
        steps = f"steps {step - self._count + 1} to {step}"
        check_same(self._fabric, f"the sizes drawn in {steps}", self._seen.digest())
        self._seen, self._count = hashlib.sha256(), 0

"""A task of a user's own: an objective and a score, each a function of the model and a batch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .settings import Kd
from .task import Objective, Task
from .user_code import first_line

__all__ = ["Batch", "OwnObjective", "OwnScore", "OwnTask", "own_task"]

Batch = tuple[Tensor, Tensor]
"""Images and targets."""
OwnObjective = Callable[[nn.Module, Batch], Tensor]
"""``objective(model, batch)`` calls the model once and returns a loss, one number."""
OwnScore = Callable[[nn.Module, Batch], Any]
"""``score(model, batch)`` returns the mean of a batch, or one number for each of its images; higher
is better."""

NOISE = 0.3
"""Standard deviation, relative to that of an output over the images, of the normal distributions
that outputs are read as for a distance in nats: changes of the outputs then weigh about as much as
those of softened class logits."""
FLOOR = 1e-6  # least variance of an output, as a share of its mean square


@dataclass(frozen=True)
class OwnTask(Task):
    """An objective and a score of a user's own; the outputs are any tensor (N, ...).

    Outputs are compared by squared error per channel divided by its variance. The distillation term
    is scaled by the rise of the objective when every output is replaced by the teacher's mean
    output. The search and the channel sorting use the same distance.
    """

    own_objective: OwnObjective
    own_score: OwnScore

    scores = ("score",)

    def names(self) -> dict[str, str]:
        return {"objective": _name(self.own_objective), "score": _name(self.own_score)}

    def objective(self, label_smoothing: float = 0.0) -> Objective:
        if label_smoothing:
            raise ValueError(
                "label_smoothing is for class labels, not for an objective of your own"
            )

        def objective(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
            with _recorded_calls(model) as calls:
                loss = self.own_objective(model, (x, y))
            if len(calls) != 1:
                raise ValueError(
                    f"objective {_name(self.own_objective)} calls the model {len(calls)} times; it "
                    "must call it once for a batch"
                )
            return {"loss": self._scalar(loss), "inputs": calls[0][0], "outputs": calls[0][1]}

        return objective

    def sums(self, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = self._scalar(self.own_objective(model, (x, y))).detach().cpu().double()
        score = self._score_sum(self.own_score(model, (x, y)), len(x))
        return torch.stack([len(x) * loss, score])

    def training_sums(self, outputs: Tensor, y: Tensor) -> dict[str, Tensor]:
        return {}  # the score takes the model, not its outputs

    def distance(self, outputs: Tensor, answers: Tensor) -> Tensor:
        noise = NOISE**2 * _statistics(answers)[1]
        return ((outputs - answers).square() / (2 * noise)).mean()

    def distillation_loss(
        self,
        of_labels: Tensor,
        outputs: Tensor,
        answers: Tensor,
        batch: Batch,
        *,
        kd: Kd = "soft",
        weight: float = 0.9,
        temperature: float = 4.0,
    ) -> Tensor:
        mean, variance = _statistics(answers)
        with torch.no_grad():
            knowing, ignorant = (
                self._scalar(self.own_objective(_Constant(given), batch))
                for given in (answers, mean.expand_as(answers))
            )
        at_stake = (ignorant - knowing).clamp(min=0)
        match = at_stake * ((outputs - answers).square() / variance).mean()
        own = weight if kd == "paper" else 1 - weight
        return own * of_labels + (1 - own) * match

    def surprise(self, outputs: Tensor, generator: torch.Generator, temperature: float) -> Tensor:
        noise = NOISE**2 * _statistics(outputs.detach())[1]
        drawn = torch.randn(outputs.shape, generator=generator).to(outputs.device)
        answers = outputs.detach() + noise.sqrt() * drawn
        return ((outputs - answers).square() / (2 * noise)).sum()

    def check_output(self, output: Any, name: str, num_classes: int) -> None:
        if not isinstance(output, Tensor) or not output.ndim or len(output) != 1:
            what = f"a tensor of {tuple(output.shape)}" if isinstance(output, Tensor) else ""
            raise ValueError(
                f"the model returns {what or type(output).__name__} for one image of {name}, "
                "instead of one tensor (1, ...)"
            )

    def try_out(self, model: nn.Module, images: Callable[[], Batch]) -> None:
        x, y = images()
        objective, score = self.objective(), self.own_score
        loss = _called(self.own_objective, "objective", model, lambda: objective(model, x, y))
        if not loss["loss"].requires_grad:
            raise ValueError(
                f"objective {_name(self.own_objective)} returns a loss without a gradient; compute "
                "it from the outputs of the model with torch"
            )
        _called(score, "score", model, lambda: self._score_sum(score(model, (x, y)), len(x)))

    def _scalar(self, loss: Any) -> Tensor:
        if isinstance(loss, Tensor) and loss.numel() == 1 and loss.is_floating_point():
            return loss.reshape(())
        raise ValueError(
            f"objective {_name(self.own_objective)} returns {_described(loss)} instead of a tensor "
            "with one number"
        )

    def _score_sum(self, score: Any, images: int) -> Tensor:
        try:
            values = torch.as_tensor(score, dtype=torch.float64, device="cpu").detach()
        except (TypeError, ValueError, RuntimeError):
            values = None
        if values is not None and values.ndim == 0:
            return images * values
        if values is not None and values.shape == (images,):
            return values.sum()
        raise ValueError(
            f"score {_name(self.own_score)} returns {_described(score)} for {images} images "
            "instead of one number, or one for each image"
        )


def own_task(objective: OwnObjective | None, score: OwnScore | None) -> OwnTask | None:
    """The task of a user's functions, or None if there are none.

    >>> own_task(None, lambda model, batch: 0.0)
    Traceback (most recent call last):
    ValueError: there is a score but no objective; give both
    """
    if objective is None and score is None:
        return None
    if objective is None or score is None:
        here, absent = ("score", "objective") if objective is None else ("objective", "score")
        raise ValueError(
            f"there is a{'n' * (here == 'objective')} {here} but no {absent}; give both"
        )
    for name, function in (("objective", objective), ("score", score)):
        if not callable(function):
            raise ValueError(
                f"{name} is {_described(function)}; give a function of the model and a batch"
            )
    return OwnTask(objective, score)


class _Constant(nn.Module):
    """A network with constant outputs."""

    def __init__(self, outputs: Tensor) -> None:
        super().__init__()
        self.outputs = outputs

    def forward(self, x: Tensor) -> Tensor:
        return self.outputs


def _statistics(outputs: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of each channel, over images and positions."""
    others = [axis for axis in range(outputs.ndim) if axis != 1]
    mean = outputs.mean(others, keepdim=True)
    variance = (outputs - mean).square().mean(others, keepdim=True)
    # an output that is nearly the same for all images must not outweigh the others
    variance = variance.maximum(FLOOR * outputs.square().mean(others, keepdim=True))
    return mean, variance.where(variance > 0, 1.0)


@contextmanager
def _recorded_calls(model: nn.Module) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Within the context, the inputs and outputs of the model are appended to a list."""
    calls: list[tuple[Tensor, Tensor]] = []
    hook = model.register_forward_hook(lambda _, given, output: calls.append((given[0], output)))
    try:
        yield calls
    finally:
        hook.remove()


def _called(
    function: Callable[..., Any], what: str, model: nn.Module, call: Callable[[], Any]
) -> Any:
    """The result of a call to a user's function; if it fails, a ValueError with a hint."""
    called: list[nn.Module] = []
    hook = model.register_forward_pre_hook(lambda module, _: called.append(module))
    try:
        return call()
    except ValueError:
        raise
    except Exception as error:
        where, hint = "on the first images", ""
        if not called:  # such as a loss, which takes outputs and targets
            where, minus = "before it calls the model", "-" * (what == "score")
            hint = (
                "; give a function of the model and a batch, such as "
                f"lambda model, batch: {minus}F.mse_loss(model(batch[0]), batch[1])"
            )
        raise ValueError(
            f"{what} {_name(function)} fails {where}: {first_line(error)}{hint}"
        ) from error
    finally:
        hook.remove()


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a {str(value.dtype)[6:]} tensor of shape {tuple(value.shape)}"
    return repr(value) if isinstance(value, float | int | str | None) else type(value).__name__

"""What is said before hours of work: the unpruned network guesses, or was trained already."""

import re

import pytest
import torch
from torch import Tensor, nn

import transformable as tas
from transformable.cli.progress_bar import ProgressLines
from transformable.data import Dataset, from_tensors
from transformable.pruning import prune as pruning
from transformable.runs.progress import Progress, Titled


class Reader(nn.Module):
    """Its class is the first pixel, times a factor; with the factor 0 it guesses."""

    classes: Tensor

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.conv, self.bn, self.last = nn.Conv2d(1, 8, 1), nn.BatchNorm2d(8), nn.Conv2d(8, 4, 1)
        self.register_buffer("classes", torch.arange(4.0))
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        unused: Tensor = self.last(self.bn(self.conv(x))).mean((2, 3))
        logits: Tensor = -(x[:, 0, 0, :1] - self.classes).square()
        return self.factor * logits + 0 * unused


class Warned(Progress):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def warn(self, text: str) -> None:
        self.texts.append(text)


class StopError(Exception):
    pass


@pytest.fixture
def data() -> Dataset:
    labels = torch.arange(200) % 4
    images = labels.float().view(-1, 1, 1, 1).repeat(1, 1, 2, 2)
    return from_tensors((images, labels), (images, labels), validation=0.1)


@pytest.fixture(autouse=True)
def stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise StopError

    monkeypatch.setattr(pruning, "apply_method", stop)


@pytest.mark.parametrize("factor", [0.0, 1.0])
def test_a_network_that_guesses_is_told_before_the_method_runs(
    data: Dataset, factor: float
) -> None:
    warned = Warned()
    with pytest.raises(StopError):
        tas.prune(Reader(factor), data, trained=True, progress=warned)
    if factor:
        assert not warned.texts
    else:
        [text] = warned.texts
        assert re.match(
            r"the unpruned network: 25.00% on 200 images is not clearly better than guessing one "
            r"of 4 classes \(25.00%\). Was it trained .* \(--mean, --std\)\?",
            text,
        )


def test_a_trained_network_is_not_trained_anew_without_a_word(
    data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "train_teacher", lambda *_: {})
    warned = pytest.warns(UserWarning, match="use trained=True to prune it as it is")
    with warned, pytest.raises(StopError):
        tas.prune(Reader(1.0), data)
    for given, trained in ((Reader(0.0), False), (Reader(1.0), True)):
        with pytest.raises(StopError):
            tas.prune(given, data, trained=trained)  # a warning would be an error here


def test_a_command_shows_it_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    Titled("1/3 teacher", ProgressLines()).warn("it guesses")
    assert capsys.readouterr().err == "tas: warning: it guesses\n"

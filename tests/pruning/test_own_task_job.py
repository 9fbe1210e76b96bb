"""The whole job with data and a task of one's own: a score instead of an accuracy, everywhere."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import transformable as tas
from support.searches import alternating_search
from transformable.data import Dataset, from_datasets
from transformable.presets import PRESETS
from transformable.searching.search import search_all
from transformable.searching.sensitivity import Sensitivities
from transformable.slimming.fisher import fisher_importance
from transformable.training.devices import make_fabric

Batch = tuple[Tensor, Tensor]


def objective(model: nn.Module, batch: Batch) -> Tensor:
    return F.mse_loss(model(batch[0]), batch[1])


def score(model: nn.Module, batch: Batch) -> Any:
    return -10 * (model(batch[0]) - batch[1]).square().flatten(1).mean(1)


OWN: Any = {"objective": objective, "score": score}


def network() -> nn.Sequential:
    """From an image of one channel to a map of one channel."""
    torch.manual_seed(0)
    first = nn.Conv2d(1, 10, 3, padding=1), nn.BatchNorm2d(10), nn.ReLU()
    second = nn.Conv2d(10, 10, 3, padding=1), nn.BatchNorm2d(10), nn.ReLU()
    return nn.Sequential(*first, *second, nn.Conv2d(10, 1, 1))


def items(count: int, seed: int) -> list[Batch]:
    """Noisy images, and the images without noise."""
    generator = torch.Generator().manual_seed(seed)
    small = torch.rand(count, 1, 2, 2, generator=generator)
    clean = F.interpolate(small, scale_factor=3.0)
    noisy = clean + 0.2 * torch.randn(clean.shape, generator=generator)
    return list(zip(noisy, clean, strict=True))


def settings(**changes: int) -> dict[str, Any]:
    quick, short = PRESETS["quick"], {"batch_size": 8, "epochs": 1, **changes}
    return {
        "training": tas.Training(epochs=4, batch_size=8, lr=0.05),
        "searching": tas.Searching(**{**vars(quick.search("")), **short}),
        "distilling": tas.Distilling(**{**vars(quick.student("")), **short}),
    }


DATA = items(60, 0), items(20, 1)


def test_the_job_says_score(tmp_path: Path) -> None:
    out = tmp_path / "run"
    pruned = tas.prune(network(), DATA, 0.5, out=out, **OWN, **settings())
    result = json.loads((out / "result.json").read_text())
    assert result == pruned.summary
    for side, model in (("before", pruned.teacher), ("after", pruned.model)):
        assert "accuracy" not in result[side]
        x, y = (torch.stack(parts) for parts in zip(*DATA[1], strict=True))
        with torch.no_grad():
            wanted = float(score(model, (x, y)).mean())
        assert result[side]["score"] == pytest.approx(wanted, rel=1e-4)
    assert result["after"]["score"] > -1.5  # noise of 0.2 alone is -0.4, no network at all -3.3
    assert 0.475 <= result["after"]["macs"] / result["before"]["macs"] <= 0.525
    assert sorted(result["export"]["files"]) == ["model.onnx", "model.pt2", "model.safetensors"]
    header = (out / "student" / "metrics.csv").read_text().splitlines()[0].split(",")
    assert "validation_score" in header
    assert not [name for name in header if "accuracy" in name]
    steps = (out / "search" / "steps.csv").read_text().splitlines()[0].split(",")
    assert {"weight_loss", "architecture_loss"} <= {*steps}
    before, after = (f"−{-result[side]['score']:.3g}"[:5] for side in ("before", "after"))
    summary = (out / "summary.md").read_text()
    assert f"| score | {before}" in summary
    assert "Score is on 20 test images." in summary
    page = (out / "report.html").read_text()
    assert "<h3>Score</h3>" in page
    assert "Validation score" in page
    assert after in page
    assert "ccuracy" not in page.split("<h2")[0]
    card = (out / "export" / "README.md").read_text()
    assert f"| score | {result['before']['score']:.3g} | {result['after']['score']:.3g} |" in card
    assert "The outputs of the unpruned network." in card
    # the same call takes what is there; another score is another job
    again = tas.prune(network(), DATA, 0.5, out=out, **OWN, **settings())
    assert again.summary == result
    own: Any = {"objective": objective, "score": lambda m, b: score(m, b)}
    with pytest.raises(ValueError, match="score"):
        tas.prune(network(), DATA, 0.5, out=out, **own, **settings())


@pytest.mark.parametrize("method", ["uniform", "random", "slimming", "autoslim", "taylor", "amc"])
def test_other_methods_need_no_classes(method: str) -> None:
    found = tas.prune(network(), DATA, 0.5, method=method, **OWN, **settings(epochs=2))
    before, after = found.summary["before"], found.summary["after"]
    assert 0.475 <= after["macs"] / before["macs"] <= 0.525
    assert after["score"] > -2


def dataset() -> Dataset:
    return from_datasets(*DATA, **OWN)


def test_a_search_starts_from_the_distance_of_outputs() -> None:
    data = dataset()
    net = tas.train(network(), data, tas.Training(epochs=4, batch_size=8, lr=0.05)).model.eval()
    space = tas.Space.trace(net, (1, 6, 6))
    images, _ = next(data.train.ordered(16))

    def build(shape: tas.Shape) -> nn.Module:
        return tas.slim(net, space, shape)

    measured = Sensitivities(net, build, space, images, make_fabric("cpu"), data.task)
    found = measured.around(space.full)
    # by hand: the change of one width alone, with the batch statistics of the images
    name, size = "0", space.widths["0"][0]
    with torch.no_grad():
        answers = net(images)
        outputs = [
            build(shape).train()(images)
            for shape in (space.full, space.full.replace(widths={name: size}))
        ]
    variance = answers.var(correction=0)
    far = [(one - answers).square().mean() / (2 * 0.09 * variance) for one in outputs]
    torch.testing.assert_close(found[name][0], far[1] - far[0], rtol=1e-4, atol=1e-5)


def test_channels_are_sorted_by_what_the_outputs_depend_on() -> None:
    net = network().eval()
    last: Any = net[-1]
    last.weight.data[0, 4] = 9.0
    last.weight.data[0, 7] = 0.0
    space = tas.Space.trace(net, (1, 6, 6))
    images = torch.stack([x for x, _ in DATA[0]])
    scores = fisher_importance(net, space, [images], task=dataset().task)
    assert int(scores["3"].argmax()) == 4
    assert int(scores["3"].argmin()) == 7
    assert float(scores["3"][7]) == 0.0


@pytest.mark.parametrize("start", ["scratch", "even", "sensitivity"])
@pytest.mark.parametrize("images", ["halves", "shared"])
def test_every_kind_of_search(start: Any, images: Any) -> None:
    data, net = dataset(), network()
    space = tas.Space.trace(net, (1, 6, 6))
    kind: Any = {"start": start, "images": images, "judged": 2, "targets": "teacher"}
    searching = alternating_search(epochs=2, batch_size=8, lr=0.01, hold_epochs=0.5, **kind)
    [found] = search_all(net, data, [tas.Budget.of(0.5, space)], searching, space=space)
    assert found.budget.holds(found.derived.cost)
    assert found.history[-1]["architecture_loss"] > 0
    assert "weight_accuracy" not in found.history[-1]


@pytest.mark.parametrize("section", ["training", "searching", "distilling"])
def test_settings_for_classes_are_refused_before_anything_is_computed(section: str) -> None:
    chosen = settings()
    chosen[section] = replace(chosen[section], label_smoothing=0.1)

    def never(*_: Any) -> Any:
        raise AssertionError

    with pytest.raises(ValueError, match="label_smoothing is for class labels"):
        tas.prune(network(), DATA, 0.5, method=never, **OWN, **chosen)


def test_a_search_and_a_training_take_a_name_or_a_pair() -> None:
    searching = settings()["searching"]
    found = tas.search(network(), DATA, 0.5, searching, **OWN)
    assert 0.475 <= found.derived.cost / found.budget.value * 0.5 <= 0.525
    net = nn.Sequential(nn.Flatten(), nn.Linear(256, 10))
    trained = tas.train(net, "digits", tas.Training(epochs=1, lr=0.01))
    assert trained.n == 359
    assert trained.accuracy > 0.5

"""A batch that goes through the network in parts: the same step, in less memory."""

import pytest
import torch
from torch import Tensor, nn

from support.searches import alternating_search
from transformable import Space, Training
from transformable.costing.budget import Budget
from transformable.data import from_tensors
from transformable.searching.search import make_supernet
from transformable.searching.search_step import SearchStep
from transformable.training.devices import make_fabric
from transformable.training.train import train


def images(count: int = 22) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(0)
    return torch.randn(count, 3, 8, 8, generator=random), torch.arange(count) % 2


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 2),
    )


@pytest.mark.parametrize("parts", [2, 3, 11])  # 3: of 4, 4 and 3 images
def test_training_in_parts_is_training(parts: int) -> None:
    seen: list[int] = []
    results = {}
    for accumulate in (1, parts):
        model, data = network(), from_tensors(images(), images(), validation=0)
        model.register_forward_pre_hook(
            lambda module, x: seen.append(len(x[0])) if module.training else None
        )
        settings = Training(epochs=2, batch_size=11, lr=0.1, accumulate=accumulate)
        trained = train(model, data, settings)
        results[accumulate] = trained.model.state_dict(), trained.history[-1]
    whole, in_parts = results[1], results[parts]
    assert seen[:4] == [11] * 4
    assert max(seen[4:]) == -(-11 // parts)
    assert sum(seen[4:]) == 44
    for name, value in whole[0].items():
        assert torch.allclose(in_parts[0][name], value, atol=1e-6), name
    assert in_parts[1]["train_loss"] == pytest.approx(whole[1]["train_loss"], abs=1e-6)
    assert in_parts[1]["train_accuracy"] == whole[1]["train_accuracy"]


@pytest.mark.parametrize("shared", [True, False])
def test_a_search_step_in_parts_is_the_step(shared: bool) -> None:
    rows, states = [], []
    for accumulate in (1, 3):
        model = network()
        space = Space.trace(model, (3, 8, 8))
        settings = alternating_search(
            epochs=1, batch_size=11, lr=0.1, accumulate=accumulate, arch_lr=0.1
        )
        net = make_supernet(model, space, settings, seed=0).train()
        step = SearchStep(net, Budget.of(0.5, space), settings, 10, make_fabric("cpu"))
        batches = [images(11)] if shared else [images(11), images(11)]
        rows.append(step(0, 0, *batches))
        states.append(net.state_dict())
    for name, value in states[0].items():
        assert torch.allclose(states[1][name], value, atol=1e-5), name
    assert rows[1]["weight_loss"] == pytest.approx(rows[0]["weight_loss"], abs=1e-6)


def test_more_parts_than_images() -> None:
    with pytest.raises(ValueError, match="accumulate must be at most the batch_size of 8, not 9"):
        Training(batch_size=8, accumulate=9)

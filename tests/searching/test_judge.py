"""Shapes that the search finds probable, compared on held-out images."""

import torch

import transformable as tas
from support.method_inputs import network
from transformable.searching.derive import derive
from transformable.searching.judge import judge
from transformable.searching.sensitivity import divergence
from transformable.supernet.supernet import SuperNet
from transformable.training.calibration import recalibrate
from transformable.training.devices import make_fabric

FABRIC = make_fabric("cpu")


def test_the_best_of_the_drawn_shapes_is_taken() -> None:
    model, _ = network("resnet20")
    space = tas.Space.trace(model, (3, 8, 8), ratios=(0.3, 0.6, 1.0))
    torch.manual_seed(0)
    images = torch.randn(24, 3, 8, 8)
    recalibrate(model, [images], FABRIC)
    net = SuperNet(model, space, align="pad")
    with torch.no_grad():
        for name in ("stem.0", "stages.1.0.conv2", "stages.2.0.conv2"):
            net.alpha[net.rows[name], 0] = 1.5  # narrow streams are most probable, by mistake
    budget = tas.Budget.of(0.5, space)
    first = derive(net.probabilities(), space, budget)

    def distance(shape: tas.Shape) -> float:
        with torch.no_grad():
            answers = model.eval()(images)
        return float(divergence(net.extract(shape), images, answers, FABRIC))

    found = judge(net, model.eval(), first, budget, images, 6, FABRIC, seed=0)
    assert distance(found.shape) < distance(first.shape)
    assert found.how == "judged"
    assert budget.low <= tas.macs(space, found.shape) == found.cost <= budget.high
    # it is less probable than the argmax by what was given up
    rows = {name: p.detach().log() for name, p in net.probabilities().items()}
    sizes = {**found.shape.widths, **found.shape.depths}
    own = sum(float(rows[n][c.index(sizes[n])]) for n, c in space.candidates.items())
    most = sum(float(row.max()) for row in rows.values())
    assert abs(found.log_probability - own) < 1e-6
    assert abs(found.given_up - (most - own)) < 1e-6
    # one shape alone is the most probable one
    assert judge(net, model, first, budget, images, 1, FABRIC, seed=0) == first


def test_the_network_stays_as_it_is() -> None:
    model, _ = network("resnet20")
    space = tas.Space.trace(model, (3, 8, 8), ratios=(0.3, 1.0))
    images = torch.randn(8, 3, 8, 8)
    net = SuperNet(model, space, align="pad")
    budget = tas.Budget.of(0.5, space)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    judge(net, model, derive(net.probabilities(), space, budget), budget, images, 2, FABRIC, 0)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())

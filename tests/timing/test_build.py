"""Tables of latencies from networks whose times follow a law, which the tables must find."""

import itertools
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import transformable as tas
from support.made_up_latency import made_up_latency
from support.networks import NETWORKS
from support.timed_by_law import time_by_law
from transformable.costing.latency import ALIGNED, Conditions
from transformable.shape import Shape
from transformable.slimming.slim import slim, slim_graph
from transformable.timing import build, divisors, samples, table_file, timer
from transformable.timing.parts import find_parts
from transformable.timing.runtimes import node_times, whole_call
from transformable.timing.stopwatch import Timing, time_calls

HERE = Conditions(machine="here")


@pytest.fixture
def by_law(monkeypatch: pytest.MonkeyPatch) -> None:
    time_by_law(monkeypatch)


@pytest.mark.parametrize("name", ["padded resnet", "vgg"])
def test_the_law_is_found(name: str, by_law: None) -> None:
    model = NETWORKS[name][0]().eval()
    space = tas.Space.trace(model, (3, 16, 16), ratios=(0.25, 0.5, 1.0))
    measured = build.measure_latency(model, space, HERE)
    assert measured.noise == 0
    assert not measured.warning
    latency = measured.latency
    truth = timer.shape_timer(model, space, latency)
    assert truth(space.full) == pytest.approx(latency.full)
    generator = torch.Generator().manual_seed(1)
    errors = []
    for _ in range(8):
        shape = space.sample(generator)
        errors.append(abs(latency.cost(space, shape) / truth(shape) - 1))
    assert max(errors) < 0.05
    assert sum(latency.by_layer(space, space.full).values()) == pytest.approx(
        latency.cost(space, space.full) - latency.constant, abs=1
    )


def separable() -> nn.Module:
    """Most of its time is that of layers that treat each channel by itself."""
    layers: list[nn.Module] = []
    before = 3
    for width in (52, 44, 60, 37, 64):
        depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        layers += [nn.Conv2d(before, width, 1), depthwise, nn.ReLU()]
        before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 10))


@pytest.mark.parametrize("make", [NETWORKS["padded resnet"][0], separable])
def test_layers_that_read_an_odd_number_of_channels(
    make: Callable[[], nn.Module], by_law: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Onnxruntime computes them in another way, also where each channel is treated by itself."""
    monkeypatch.setattr(build, "LEVELS", 5)
    model = make().eval()
    space = tas.Space.trace(model, (3, 16, 16), ratios=(0.3, 0.4, 0.5, 0.6, 0.75, 0.8, 1.0))
    conditions = replace(HERE, runtime="onnxruntime")
    latency = build.measure_latency(model, space, conditions).latency
    truth = timer.shape_timer(model, space, latency)
    generator = torch.Generator().manual_seed(1)
    shapes = [space.sample(generator) for _ in range(8)]
    odd = [sum(width % ALIGNED > 0 for width in shape.widths.values()) for shape in shapes]
    assert sum(odd) > 8
    errors = [abs(latency.cost(space, shape) / truth(shape) - 1) for shape in shapes]
    assert max(errors) < 0.1


def test_parts_are_all_nodes_with_the_widths_that_they_depend_on() -> None:
    model = tas.models.build("resnet20")
    space = tas.Space.trace(model, (3, 16, 16))
    parts = {part.name: part for part in find_parts(model, space)}
    calls = [n.name for n in space.graph.nodes if n.op.startswith("call")]
    assert list(parts) == calls
    layers = {layer.name: layer for layer in space.layers}
    conv = parts["stages_1_1_conv2"]
    layer = layers["stages.1.1.conv2"]
    assert (conv.ins, conv.outs, conv.block) == (layer.inputs, layer.outputs, ("stages.1", 1))
    assert parts["stages_1_2_conv2"].kind == conv.kind
    assert parts["stages_1_0_conv1"].kind != conv.kind  # it has a stride
    assert (parts["add"].is_add, parts["relu_1"].is_add) == (True, False)
    assert parts["relu_1"].layer == "stages.0.0.conv2"
    assert model.training


@pytest.mark.parametrize("name", ["resnet20", "branches", "densenet"])
def test_a_network_in_graph_form_is_the_same_network(name: str) -> None:
    model = (NETWORKS[name][0]() if name in NETWORKS else tas.models.build(name)).eval()
    space = tas.Space.trace(model, (3, 16, 16))
    x = torch.rand(2, 3, 16, 16)
    sources = {node.name for node in space.graph.nodes}
    for seed in range(3):
        shape = space.sample(torch.Generator().manual_seed(seed))
        graph = slim_graph(model, space, shape)
        assert torch.equal(graph(x), slim(model, space, shape)(x))
        assert {n.meta["source"] for n in graph.graph.nodes if n.op != "output"} <= sources


def test_nodes_and_the_whole_are_timed() -> None:
    """Real clocks: nothing is known of the times but that they are positive and complete."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4)).eval()
    space = tas.Space.trace(model, (3, 8, 8))
    graph, x = slim_graph(model, space, space.full), torch.rand(2, 3, 8, 8)
    times = node_times("torch", graph, x, rounds=3)
    assert list(times) == ["_0", "_1", "_2", "_3"]
    assert min(times.values()) > 0
    fused = node_times("onnxruntime", graph, x, rounds=3)
    assert set(fused) == {"_0", "_3"}  # the activation is in the convolution
    assert min(fused.values()) > 0
    for runtime in ("torch", "onnxruntime"):
        call = whole_call(runtime, model, x)
        outputs: Any = call()
        got = outputs[0] if runtime == "onnxruntime" else outputs
        torch.testing.assert_close(torch.as_tensor(got), model(x), rtol=1e-4, atol=1e-4)
        assert time_calls({"a": call}, rounds=5)["a"].median_ms > 0


def test_other_work_on_the_machine_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has tripled most times of the small network, and none of the full one's."""
    timed = {
        "small": Timing(low_ms=0.5, median_ms=1.5, high_ms=1.6),
        "full": Timing(low_ms=1.0, median_ms=1.1, high_ms=1.2),
    }
    for module in (timer, samples):
        monkeypatch.setattr(module, "time_calls", lambda *_, **__: timed)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4)).eval()
    space = tas.Space.trace(model, (3, 8, 8))
    latency = made_up_latency(model, space)
    assert timer.shape_timer(model, space, latency)(space.full) == 0.5 * latency.full
    x = torch.rand(1, 3, 8, 8)
    sample = samples.take_sample(model, space, space.full, "torch", x, lambda: None)
    assert (sample.total, sample.full) == (5e5, 1e6)


def test_more_threads_than_processors_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    processors = 3  # of however many there are, those that this process may use
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(processors), raising=False)
    model = NETWORKS["vgg"][0]()
    space = tas.Space.trace(model, (3, 16, 16))
    crowded = replace(HERE, threads=processors + 1)
    message = f"latency-threads must be at most {processors} on this machine, not {processors + 1}"
    with pytest.raises(ValueError, match=message):
        build.measure_latency(model, space, crowded)
    with pytest.raises(ValueError, match=message):
        divisors.paying_divisor(model, space, crowded, torch.device("cpu"))


def table(by_law: None, path: Path | None = None) -> Any:
    model = NETWORKS["vgg"][0]()
    space = tas.Space.trace(model, (3, 16, 16))
    return model, space, table_file.find_latency(model, space, HERE, path=path)


def test_a_table_is_built_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_law: None
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model, space, first = table(by_law)
    assert first.path.parent == tmp_path / "transformable" / "latency"
    monkeypatch.setattr(table_file, "measure_latency", None)
    again = table_file.find_latency(model, space, HERE)
    assert again.seconds == first.seconds
    for seed in range(4):
        shape = space.sample(torch.Generator().manual_seed(seed))
        one, two = (t.measured.latency.cost(space, shape) for t in (first, again))
        assert one == two
    # another runtime, batch or number of threads is another table
    with pytest.raises(TypeError):
        table_file.find_latency(model, space, replace(HERE, batch=8))


def test_tables_that_are_not_ours_are_refused(tmp_path: Path, by_law: None) -> None:
    path = tmp_path / "table.json"
    model, space, made = table(by_law, path)
    there = replace(HERE, machine="there")

    def read(conditions: Conditions = HERE, space: tas.Space = space, **named: Any) -> Any:
        return table_file.find_latency(model, space, conditions, path=path, **named)

    with pytest.raises(
        ValueError, match=r"measured on 'here', and this is 'there'.*--latency-machine"
    ):
        read(there)
    named = read(there, machine="here")
    assert named.measured.latency.timer is None  # it cannot be measured here
    assert named.measured.latency.full == made.measured.latency.full
    with pytest.raises(ValueError, match="measured with batch 1, not 8"):
        read(replace(HERE, batch=8))
    with pytest.raises(ValueError, match="for another network, or for images of another size"):
        read(space=tas.Space.trace(model, (3, 16, 16), residual="tied"))
    content = path.read_text()
    assert '"block": 1' in content
    blocks = [content.replace('"block": 1', f'"block": {block}') for block in ('"x"', 0)]
    for broken in (content[:-40], content.replace('"times"', '"tims"'), "[]", "{}", *blocks):
        path.write_text(broken)
        with pytest.raises(ValueError, match=r"table\.json is not a latency table"):
            read()
    path.write_text(content.replace('"version": 2', '"version": 7'))
    with pytest.raises(ValueError, match="has version 7, not 2: delete it, or name another file"):
        read()


@pytest.mark.parametrize(("steps", "divisor"), [(8, 8), (16, 16), (1, 1)])
def test_multiples_that_pay(steps: int, divisor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that computes so many channels at a time."""
    monkeypatch.setattr(
        divisors, "whole_call", lambda _, net, x: SimpleNamespace(width=net.out_channels)
    )

    def timed(calls: Mapping[str, Any]) -> dict[str, Any]:
        return {
            n: SimpleNamespace(low_ms=1 + 0.1 * -(-call.width // steps) * steps)
            for n, call in calls.items()
        }

    monkeypatch.setattr(divisors, "time_calls", timed)
    model = tas.models.build("resnet20")
    space = tas.Space.trace(model, (3, 16, 16))
    found = divisors.paying_divisor(model, space, HERE, torch.device("cpu"))
    assert found.divisor == divisor
    assert str(found).startswith(f"{divisor}, since widths in between are")


def test_shapes_meet_in_all_combinations() -> None:
    space = tas.Space.trace(NETWORKS["vgg"][0](), (3, 16, 16))
    shapes: list[Shape] = samples.choose_shapes(space, 5)
    assert shapes[0] == space.full
    assert len(shapes) == 1 + 25 + samples.RANDOM
    names = list(space.widths)
    for one, two in itertools.pairwise(names):
        pairs = {(shape.widths[one], shape.widths[two]) for shape in shapes[1:26]}
        assert len(pairs) == 25

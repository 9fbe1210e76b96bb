"""The training loop against literal twins, and its resuming to the bit."""

import math
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from transformable.data import Dataset, from_tensors
from transformable.runs.run_folder import Run
from transformable.settings import Training
from transformable.task import cross_entropy
from transformable.training.devices import make_fabric
from transformable.training.divergence import TrainingName
from transformable.training.evaluate import evaluate
from transformable.training.interrupts import Interrupted
from transformable.training.session import Session
from transformable.training.train import learning_rate, minimise, train

SETTINGS = Training(epochs=3, batch_size=8, lr=0.1, warmup_epochs=0.5)


class Tiny(nn.Module):
    """Has what makes resuming hard: batch statistics and dropout."""

    def __init__(self, dropout: float = 0.3) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(4)
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(4, 7)

    def forward(self, x: Tensor) -> Tensor:
        x = self.bn(self.conv(x)).relu().mean((2, 3))
        logits: Tensor = self.fc(self.dropout(x))
        return logits


def tiny(dropout: float = 0.3) -> Tiny:
    torch.manual_seed(0)
    return Tiny(dropout)


@pytest.fixture
def dataset() -> Dataset:
    random = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (70, 1, 6, 6), generator=random, dtype=torch.uint8)
    y = torch.arange(70) % 7
    return from_tensors((x, y), (x[:21], y[:21]), validation=0.2, padding=1)


def test_the_learning_rate_by_hand() -> None:
    def rate(step: int) -> float:
        return learning_rate(step, total=13, warmup=4, peak=0.8)

    assert [rate(step) for step in range(4)] == pytest.approx([0.2, 0.4, 0.6, 0.8])
    # 8 intervals from the peak at step 4 to 0 at step 12
    assert rate(4) == 0.8
    assert rate(6) == pytest.approx(0.4 * (1 + math.sqrt(0.5)))
    assert rate(8) == pytest.approx(0.4)
    assert rate(10) == pytest.approx(0.4 * (1 - math.sqrt(0.5)))
    assert rate(12) == 0.0


def test_the_learning_rate_without_warmup_or_room() -> None:
    assert learning_rate(0, total=3, warmup=0, peak=0.5) == 0.5
    assert learning_rate(2, total=3, warmup=0, peak=0.5) == 0.0
    assert learning_rate(0, total=1, warmup=0, peak=0.5) == 0.5


def test_training_is_the_bare_loop(dataset: Dataset) -> None:
    settings = Training(
        epochs=2, batch_size=8, lr=0.1, warmup_epochs=1.0, weight_decay=0.01, label_smoothing=0.1
    )
    twin = tiny(dropout=0)
    # Nesterov and weight decay written out, as in the documentation of torch.optim.SGD
    momenta = {name: torch.zeros_like(p) for name, p in twin.named_parameters()}
    (step, sums) = (0, [])
    for epoch in range(2):
        sums.append([0.0, 0, 0])
        for x, y in dataset.train.shuffled(8, seed=5, epoch=epoch):
            lr = (
                0.1 * (step + 1) / 7
                if step < 7
                else 0.05 * (1 + math.cos(math.pi * (step - 7) / 6))
            )
            logits = twin(x)
            loss = F.cross_entropy(logits, y, label_smoothing=0.1)
            gradients = torch.autograd.grad(loss, list(twin.parameters()))
            with torch.no_grad():
                for (name, p), g in zip(twin.named_parameters(), gradients, strict=True):
                    g = g + 0.01 * p
                    momenta[name] = 0.9 * momenta[name] + g
                    p.sub_(lr * (g + 0.9 * momenta[name]))
            sums[-1][0] += loss.item() * 8
            sums[-1][1] += int((logits.argmax(1) == y).sum())
            sums[-1][2] += 8
            step += 1

    model = tiny(dropout=0)
    trained = train(model, dataset, settings, Session(seed=5))

    assert trained.model is model
    torch.testing.assert_close(model.state_dict(), twin.state_dict(), rtol=1e-5, atol=1e-7)
    assert step == 14
    for row, (loss_sum, right, seen) in zip(trained.history, sums, strict=True):
        assert row["train_loss"] == pytest.approx(loss_sum / seen, rel=1e-6)
        assert row["train_accuracy"] == right / seen
    expected = evaluate(twin, dataset.test)
    assert (trained.accuracy, trained.top5, trained.n) == (
        expected["accuracy"],
        expected["top5"],
        21,
    )


def test_training_is_torch_sgd_to_the_bit(dataset: Dataset) -> None:
    twin = tiny(dropout=0).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    decay = SETTINGS.weight_decay
    sgd = torch.optim.SGD(
        twin.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=decay
    )
    step = 0
    for epoch in range(3):
        for x, y in dataset.train.shuffled(8, seed=0, epoch=epoch):
            sgd.param_groups[0]["lr"] = learning_rate(step, total=21, warmup=4, peak=0.1)
            sgd.zero_grad()
            F.cross_entropy(twin(x), y).backward()  # type: ignore[no-untyped-call]
            sgd.step()
            step += 1
    model = tiny(dropout=0)
    train(model, dataset, SETTINGS)
    assert_same(model.state_dict(), twin.state_dict())


def test_a_network_with_other_outputs_in_training_is_refused(dataset: Dataset) -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = tiny()

        def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
            logits: Tensor = self.net(x)
            return (logits, logits) if self.training else logits

    with pytest.raises(ValueError, match="in training the model returns tuple instead of a tensor"):
        train(Two(), dataset, SETTINGS)


def test_the_rows_of_the_history(dataset: Dataset) -> None:
    model = tiny()
    rows = train(model, dataset, SETTINGS).history
    assert [row["epoch"] for row in rows] == [1, 2, 3]
    assert [row["step"] for row in rows] == [7, 14, 21]
    assert [row["lr"] for row in rows] == pytest.approx(
        [learning_rate(step, total=21, warmup=4, peak=0.1) for step in (6, 13, 20)]
    )
    after = evaluate(model, dataset.validation, batch_size=8)
    last = rows[-1]
    assert last["validation_accuracy"] == after["accuracy"]
    assert last["validation_top5"] == after["top5"]
    assert last["validation_loss"] == pytest.approx(after["loss"])
    assert last["samples_per_second"] == pytest.approx(56 / last["seconds"])


def test_what_is_done_after_each_epoch_is_seen_by_its_validation(dataset: Dataset) -> None:
    net, calls = tiny(), []

    def always_the_first(model: nn.Module) -> None:
        assert model is net
        calls.append(net.fc.weight.detach().clone())
        with torch.no_grad():
            net.fc.weight.zero_()
            net.fc.bias.copy_(torch.eye(7)[0])

    plain, session = cross_entropy(), Session()
    trained = minimise(plain, net, dataset, SETTINGS, session, after_epoch=always_the_first)
    assert len(calls) == SETTINGS.epochs
    share = float((dataset.validation.labels == 0).float().mean())
    for row in trained.history:
        assert row["validation_accuracy"] == pytest.approx(share)
    # what was zero has learnt again in the next epoch
    assert calls[1].abs().sum() > 0
    assert net.fc.weight.abs().sum() == 0


def test_what_is_done_after_an_epoch_is_not_done_twice(dataset: Dataset, tmp_path: Path) -> None:
    settings, calls = Training(epochs=3, batch_size=8), []

    def stop_in_the_first_validation(model: nn.Module) -> None:
        calls.append(model)
        if len(calls) == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    def run() -> None:
        with Run.open(tmp_path / "run", {}) as run:
            session, stop = Session(run=run), stop_in_the_first_validation
            minimise(cross_entropy(), tiny(), dataset, settings, session, after_epoch=stop)

    with pytest.raises(Interrupted):
        run()
    assert len(calls) == 1
    run()
    assert len(calls) == 3


def test_evaluation_by_hand() -> None:
    logits = torch.tensor(
        [
            [9.0, 8.0, 7.0, 6.0, 5.0, 0.0],
            [9.0, 8.0, 7.0, 6.0, 5.0, 0.0],
            [9.0, 8.0, 7.0, 6.0, 5.0, 0.0],
        ]
    ).reshape(3, 6, 1, 1)
    y = torch.tensor([0, 4, 5])  # first, fifth and sixth guess
    everything = torch.arange(6)
    split = from_tensors((torch.zeros(6, 6, 1, 1), everything), (logits, y), validation=0).test
    model = nn.Flatten()
    got = evaluate(model, split, batch_size=2)
    total = math.log(sum(math.exp(v) for v in (9, 8, 7, 6, 5, 0)))
    assert got["accuracy"] == 1 / 3
    assert got["top5"] == 2 / 3
    assert got["loss"] == pytest.approx(((total - 9) + (total - 5) + (total - 0)) / 3)
    assert got["n"] == 3
    assert model.training


def test_evaluation_with_fewer_than_five_classes() -> None:
    images = (torch.zeros(4, 1, 2, 2), torch.arange(4) % 2)
    split = from_tensors(images, images, validation=0).test
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    assert evaluate(net, split)["top5"] == 1.0


def test_evaluation_of_nothing_is_refused(dataset: Dataset) -> None:
    with pytest.raises(ValueError, match="no images to evaluate"):
        evaluate(tiny(), dataset.test.subset(torch.tensor([], dtype=torch.int64)))


def test_an_objective_of_ones_own(dataset: Dataset) -> None:
    calls = []

    def objective(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        calls.append(len(y))
        logits = model(x)
        return {"loss": 0 * logits.sum(), "outputs": logits}

    model = tiny()
    before = model.fc.weight.clone()
    settings = Training(epochs=1, batch_size=8, weight_decay=0.0)
    minimise(objective, model, dataset, settings, Session())
    assert calls == [8] * 7
    assert torch.equal(model.fc.weight, before)  # a loss without a gradient, and no decay


def test_without_validation_the_row_says_nothing() -> None:
    x = torch.zeros(16, 1, 4, 4)
    y = torch.arange(16) % 2
    row = train(
        tiny(), from_tensors((x, y), (x, y), validation=0), Training(epochs=1, batch_size=8)
    ).history[0]
    assert row["validation_accuracy"] is None
    assert row["validation_loss"] is None


def test_the_callers_random_numbers_are_left_alone(dataset: Dataset) -> None:
    model = tiny()
    torch.manual_seed(3)
    before = torch.get_rng_state()
    train(model, dataset, SETTINGS)
    assert torch.equal(torch.get_rng_state(), before)


def test_seeds_differ_and_repeat(dataset: Dataset) -> None:
    (a, b, c) = (tiny(), tiny(), tiny())
    train(a, dataset, SETTINGS, Session(seed=1))
    train(b, dataset, SETTINGS, Session(seed=1))
    train(c, dataset, SETTINGS, Session(seed=2))
    assert_same(a.state_dict(), b.state_dict())
    assert not torch.equal(a.fc.weight, c.fc.weight)


@pytest.mark.parametrize("stop_at", [1, 7, 10, 20, 21])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_at_any_step_it_goes_on_to_the_same_bits(
    tmp_path: Path, dataset: Dataset, stop_at: int, number: signal.Signals
) -> None:
    whole = tiny()
    history = train(whole, dataset, SETTINGS).history

    folder = tmp_path / "run"
    handlers = (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
    with Run.open(folder, {}) as run:
        with pytest.raises(Interrupted, match=f"stopped after step {stop_at}$"):
            minimise(signalling(number, stop_at), tiny(), dataset, SETTINGS, Session(run=run))
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers
        assert not (folder / "model.safetensors").exists()
        # other initial weights: all must come from the checkpoint
        resumed = train(Tiny(), dataset, SETTINGS, Session(run=run))
    assert_same(resumed.model.state_dict(), whole.state_dict())
    assert_same(load_file(folder / "model.safetensors"), whole.state_dict())
    assert timeless(resumed.history) == timeless(history)
    lines = (folder / "metrics.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["epoch", "1", "2", "3"]


@pytest.mark.parametrize("evaluation", [0, 2, 6])
def test_interrupted_while_evaluating(tmp_path: Path, dataset: Dataset, evaluation: int) -> None:
    """Validation takes two batches an epoch; number 6 is the first one of the test set."""
    whole = tiny()
    history = train(whole, dataset, SETTINGS).history

    model = tiny()
    seen: list[int] = []

    def interrupt(module: nn.Module, *_: object) -> None:
        if not module.training:
            if len(seen) == evaluation:
                os.kill(os.getpid(), signal.SIGINT)
            seen.append(1)

    model.register_forward_hook(interrupt)
    with Run.open(tmp_path / "run", {}) as run:
        with pytest.raises(Interrupted):
            minimise(dataset.task.objective(0.0), model, dataset, SETTINGS, Session(run=run))
        assert len(seen) == evaluation + 1
        resumed = train(Tiny(), dataset, SETTINGS, Session(run=run))
    assert_same(resumed.model.state_dict(), whole.state_dict())
    assert timeless(resumed.history) == timeless(history)


def test_a_crash_between_checkpoints(tmp_path: Path, dataset: Dataset) -> None:
    whole = tiny()
    train(whole, dataset, SETTINGS)

    def crashing(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        calls.append(1)
        if len(calls) == 18:
            raise RuntimeError("power cut")
        return cross_entropy()(model, x, y)

    calls: list[int] = []
    with Run.open(tmp_path / "run", {}) as run:
        with pytest.raises(RuntimeError, match="power cut"):
            minimise(crashing, tiny(), dataset, SETTINGS, Session(run=run))
        saved = run.checkpoint()
        assert saved is not None
        assert saved["state"]["step"] == 14  # the end of the second epoch
        resumed = train(Tiny(), dataset, SETTINGS, Session(run=run))
    assert_same(resumed.model.state_dict(), whole.state_dict())


def test_checkpoints_by_the_clock(tmp_path: Path, dataset: Dataset) -> None:
    steps = []

    class Watched(Run):
        def save_checkpoint(self, state: dict[str, Any]) -> None:
            steps.append(state["state"]["step"])
            super().save_checkpoint(state)

    settings = Training(epochs=1, batch_size=8)
    with Watched.open(tmp_path / "a", {}) as run:
        train(tiny(), dataset, settings, Session(run=run, checkpoint_seconds=0))
    assert steps == [1, 2, 3, 4, 5, 6, 7, 7]
    steps.clear()
    with Watched.open(tmp_path / "b", {}) as run:
        train(tiny(), dataset, settings, Session(run=run, checkpoint_seconds=1e9))
    assert steps == [7]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_loss_that_is_not_finite(tmp_path: Path, dataset: Dataset, bad: float) -> None:
    def objective(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        calls.append(1)
        outcome = cross_entropy()(model, x, y)
        if len(calls) >= 10:
            outcome["loss"] = outcome["loss"] * bad
        return outcome

    calls: list[int] = []
    message = r"number at step 10 of the training \(lr 0.1\); use a lower lr, or more warmup_epochs"
    with Run.open(tmp_path / "run", {}) as run:
        with pytest.raises(ValueError, match=message):
            minimise(objective, tiny(), dataset, SETTINGS, Session(run=run))
        saved = run.checkpoint()
    assert saved is not None
    assert saved["state"]["step"] == 7
    assert all(bool(value.isfinite().all()) for value in saved["model"].values())


def test_weights_that_are_not_finite_name_the_training(dataset: Dataset) -> None:
    def objective(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        outcome = cross_entropy()(model, x, y)
        return {**outcome, "loss": 1e38 * outcome["loss"]}

    small = TrainingName(what="the training of the small network", section="student.")
    settings = Training(epochs=1, batch_size=70, lr=1e30, warmup_epochs=0)
    with pytest.raises(
        ValueError,
        match=r"not finite after step 1 of the training of the small network \(lr 1e\+30\); use a "
        r"lower student.lr, or more student.warmup_epochs \(or 32-true instead of bf16-mixed\)$",
    ):
        minimise(objective, tiny(), dataset, settings, Session(training=small))


def test_a_learning_rate_that_was_chosen_is_named(dataset: Dataset) -> None:
    def objective(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        outcome = cross_entropy()(model, x, y)
        return {**outcome, "loss": math.nan * outcome["loss"]}

    settings = Training(epochs=1, batch_size=8, lr=0)
    with pytest.raises(
        ValueError,
        match=r"step 1 of the training \(lr 0.0\d*, chosen from the size of its filters\); check",
    ):
        minimise(objective, tiny(), dataset, settings, Session())


def test_nothing_to_train(dataset: Dataset) -> None:
    frozen = tiny().requires_grad_(False)
    with pytest.raises(ValueError, match=r"to train; call model.requires_grad_\(True\)"):
        train(frozen, dataset, SETTINGS)


def test_mixed_precision_trains_and_differs(dataset: Dataset) -> None:
    (plain, mixed) = (tiny(), tiny())
    train(plain, dataset, SETTINGS)
    train(mixed, dataset, SETTINGS, Session(fabric=make_fabric("cpu", precision="bf16-mixed")))
    assert mixed.conv.weight.dtype == torch.float32
    assert not torch.equal(plain.conv.weight, mixed.conv.weight)
    torch.testing.assert_close(plain.conv.weight, mixed.conv.weight, atol=0.05, rtol=0)


@pytest.mark.parametrize(
    ("device", "devices", "message"),
    [
        ("gpu", 1, "unknown device 'gpu'; use auto, cpu, mps, cuda or cuda:INDEX"),
        ("cpu:1", 1, "unknown device 'cpu:1'"),
        ("cuda:x", 1, "unknown device 'cuda:x'"),
        ("cuda:0", 2, "device 'cuda:0' is one device; use cuda for 2 of them"),
        ("cuda:99", 1, "device 'cuda:99' needs 100 CUDA devices"),
    ],
)
def test_devices_that_are_not_there(device: str, devices: int, message: str) -> None:
    with pytest.raises(ValueError, match="device") as caught:
        make_fabric(device, devices=devices)
    assert str(caught.value).startswith(message)


def signalling(number: signal.Signals, at: int) -> Callable[..., dict[str, Tensor]]:
    """The plain objective, that sends a signal to its own process in one step."""
    calls = []

    def objective(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        calls.append(1)
        if len(calls) == at:
            os.kill(os.getpid(), number)
        return cross_entropy()(model, x, y)

    return objective


def timeless(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without what depends on the clock."""
    clock = ("seconds", "samples_per_second")
    return [{key: row[key] for key in row if key not in clock} for row in history]


def assert_same(a: dict[str, Tensor], b: dict[str, Tensor]) -> None:
    assert sorted(a) == sorted(b)
    different = [name for name in a if not torch.equal(a[name], b[name])]
    assert different == []


def test_a_training_goes_on_where_a_search_has_stopped(dataset: Dataset) -> None:
    settings = Training(epochs=2, batch_size=8, lr=0.1, warmup_epochs=0.0)
    steps = dataset.train.steps(8)  # 7
    of_labels, images, ends = cross_entropy(), [], []

    def objective(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        images.append(x)
        return of_labels(model, x, y)

    # 1.3 epochs are 9 steps: two of the second epoch are left out
    trained = minimise(
        objective,
        tiny(),
        dataset,
        settings,
        Session(),
        after_epoch=lambda _: ends.append(len(images)),
        epochs_before=1.3,
    )
    expected = [x for epoch in (1, 2) for x, _ in dataset.train.shuffled(8, seed=0, epoch=epoch)][
        2:
    ]
    assert len(images) == len(expected) == 2 * steps - 2
    assert all(torch.equal(x, y) for x, y in zip(images, expected, strict=True))
    assert ends == [steps - 2, 2 * steps - 2]
    lr = [learning_rate(step, total=3 * steps, warmup=0, peak=0.1) for step in range(3 * steps)]
    assert [row["lr"] for row in trained.history] == [lr[2 * steps - 1], lr[-1]]
    assert [row["step"] for row in trained.history] == [2 * steps, 3 * steps]


def test_a_first_loss_that_is_no_number_is_not_blamed_on_the_learning_rate(
    dataset: Dataset,
) -> None:
    def objective(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        outcome = cross_entropy()(model, x, y)
        return {**outcome, "loss": outcome["loss"] * math.nan}

    with pytest.raises(ValueError, match=r"at step 1 of .*; check the images and the objective"):
        minimise(objective, tiny(), dataset, SETTINGS, Session())

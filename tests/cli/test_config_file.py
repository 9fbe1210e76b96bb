"""Configs: what is allowed, strict files, presets, and which value wins."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformable.cli.config_file import read_config
from transformable.cli.options import RunOptions, Train
from transformable.cli.parsing import parse
from transformable.cli.pruning_options import Prune, Sweep
from transformable.cli.query_options import Evaluate
from transformable.presets import paper, quick, quick_search
from transformable.runs.toml_text import to_toml
from transformable.settings import Training, plain_values


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epochs": 0}, "epochs must be at least 1, not 0"),
        ({"batch_size": 0}, "batch_size must be at least 1, not 0"),
        ({"lr": -0.1}, "lr must be at least 0, not -0.1"),
        ({"lr": float("nan")}, "lr must be at least 0, not nan"),
        ({"lr": float("inf")}, "lr must be at least 0, not inf"),
        ({"momentum": 1.0}, "momentum must be at least 0 and below 1, not 1.0"),
        ({"weight_decay": -0.1}, "weight_decay must be at least 0, not -0.1"),
        ({"warmup_epochs": -1.0}, "warmup_epochs must be at least 0, not -1.0"),
        ({"label_smoothing": 1.0}, "label_smoothing must be at least 0 and below 1, not 1.0"),
        ({"validation": 1.0}, "validation must be at least 0 and below 1, not 1.0"),
        ({"model": ""}, "model must not be empty"),
        ({"seed": -1}, "seed must be at least 0, not -1"),
        ({"devices": 0}, "devices must be at least 1, not 0"),
        ({"precision": "16"}, "precision must be one of 32-true, bf16-mixed, not '16'"),
    ],
)
def test_impossible_values_are_named(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match="must") as caught:
        Train(**values)  # type: ignore[arg-type]
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epoch = 3", "unknown key 'epoch'; did you mean 'epochs'?"),
        ("[training]\nepochs = 3", "unknown key 'training'"),
        ('epochs = "3"', "epochs must be a whole number, not '3'"),
        ("epochs = 3.0", "epochs must be a whole number, not 3.0"),
        ("epochs = true", "epochs must be a whole number, not True"),
        ("nesterov = 1", "nesterov must be true or false, not 1"),
        ('lr = "high"', "lr must be a number, not 'high'"),
        ("model = 20", "model must be text, not 20"),
        ("data_dir = 1", "data_dir must be text, not 1"),
        ("precision = 32", "precision must be text, not 32"),
        ('preset = "slow"', "preset must be one of quick, scratch, paper, not 'slow'"),
        ("batch_size = 0", "batch_size must be at least 1, not 0"),
        ("epochs = ", "is not TOML: Invalid value"),
    ],
)
def test_config_files_are_strict(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "c.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match="config file") as caught:
        read_config(file, Train())
    assert message in str(caught.value)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_config_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot read config file .*none.toml: No such file"):
        read_config(tmp_path / "none.toml", Train())
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="is not UTF-8 text"):
        read_config(tmp_path / "bytes.toml", Train())


@pytest.mark.parametrize(
    ("given", "read"),
    [("0.5", "0.5"), ('"20M"', "20M"), ("20_000_000", "20000000"), ("1", "1")],
)
def test_a_budget_may_be_a_number(tmp_path: Path, given: str, read: str) -> None:
    file = tmp_path / "c.toml"
    file.write_text(f"budget = {given}")
    assert read_config(file, Prune()).budget == read


def test_several_budgets_may_be_a_list_of_numbers(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('budgets = [0.3, "20M"]')
    assert read_config(file, Sweep()).budgets == "0.3,20M"


def test_whole_numbers_are_numbers(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("lr = 1")
    lr = read_config(file, Train()).lr
    assert (lr, type(lr)) == (1.0, float)


@given(
    model=st.text(min_size=1).filter(
        lambda text: text.isprintable() or "\x7f" in text or "\n" in text
    ),
    lr=st.floats(min_value=1e-300, max_value=1e300),
    nesterov=st.booleans(),
)
def test_a_written_config_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, model: str, lr: float, nesterov: bool
) -> None:
    config = Train(model=model, lr=lr, nesterov=nesterov, data_dir='a "quoted" \\ folder')
    file = tmp_path_factory.mktemp("config") / "c.toml"
    file.write_text(to_toml(plain_values(config)), encoding="utf-8", newline="")
    assert read_config(file, Train()) == config


def test_presets() -> None:
    assert quick("cifar10") == Training(
        epochs=10, batch_size=64, lr=0.1, weight_decay=5e-4, warmup_epochs=0.5
    )
    assert paper("cifar10") == Training(
        epochs=300, batch_size=256, lr=0.1, weight_decay=5e-4, warmup_epochs=5.0
    )
    assert paper("folder:photos") == Training(
        epochs=120, batch_size=256, lr=0.1, weight_decay=1e-4, warmup_epochs=5.0
    )


def test_command_line_beats_file_beats_preset_beats_defaults(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("lr = 0.7\nweight_decay = 0.3\n")
    config = parse(
        "train", Train, ["--config", str(file), "--preset=paper", "--weight-decay", "0.25"]
    )
    assert config.momentum == 0.9  # default
    assert (config.epochs, config.batch_size) == (300, 256)  # preset
    assert config.lr == 0.7  # file
    assert config.weight_decay == 0.25  # command line


def test_the_file_may_name_the_preset_and_the_data(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('preset = "paper"\ndata = "folder:photos"\n')
    assert parse("train", Train, ["--config", str(file)]).epochs == 120
    assert parse("train", Train, ["--config", str(file), "--data", "cifar10"]).epochs == 300
    assert parse("train", Train, ["--config", str(file), "--preset", "quick"]).epochs == 10


def test_evaluate_reads_a_config_too(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('run = "runs/a"\nbatch_size = 7\n')
    config = parse("evaluate", Evaluate, ["--config", str(file)])
    assert (config.run, config.batch_size) == ("runs/a", 7)
    assert parse("evaluate", Evaluate, ["runs/b", "--config", str(file)]).run == "runs/b"


def test_settings_come_in_sections(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("epochs = 7\n[search]\narch_lr = 0.2\n[student]\nlr = 0.02\n")
    given = ["--config", str(file), "--search.lr=0.3", "--batch-size=16", "--student.momentum=0.5"]
    options = parse("prune", Prune, given)
    preset = quick_search("digits")
    assert (options.search.arch_lr, options.search.lr) == (0.2, 0.3)
    assert options.search.epochs == preset.epochs
    assert (options.student.lr, options.student.epochs, options.student.momentum) == (0.02, 7, 0.5)
    batches = {s.batch_size for s in (options.train, options.search, options.student)}
    assert batches == {16}
    # short options are gone once they are in their sections: a run may be continued by either
    assert options.epochs is None
    assert parse("prune", Prune, ["--student.epochs=7"]) == parse("prune", Prune, ["--epochs=7"])


def test_a_preset_fills_all_sections() -> None:
    options = parse("prune", Prune, ["--preset=paper", "--data=cifar10", "--search.select=3"])
    assert (options.train.epochs, options.search.epochs, options.student.epochs) == (300, 600, 300)
    assert (options.search.select, options.student.transfer) == (3, "kd")


def test_a_short_option_against_its_section_is_refused() -> None:
    with pytest.raises(ValueError, match=r"epochs is 3 and student\.epochs is 5; give only one"):
        parse("prune", Prune, ["--epochs=3", "--student.epochs=5"])


def test_errors_name_the_section(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    for text, message in (
        ("[search]\narch_rl = 1.0", "unknown key 'search.arch_rl'; did you mean 'arch_lr'?"),
        ('[search]\nlr = "high"', "search.lr must be a number, not 'high'"),
        ("[student]\nlr = -0.5", "student.lr must be at least 0, not -0.5"),
    ):
        file.write_text(text)
        with pytest.raises(ValueError, match="config file") as caught:
            read_config(file, Prune())
        assert message in str(caught.value)
    with pytest.raises(ValueError, match=r"did you mean '--search\.arch-lr'"):
        parse("prune", Prune, ["--search.arch-rl=1"])
    for words, message in (
        ("--search.lr=-1", "search.lr must be at least 0, not -1.0"),
        (
            "--train.accumulate=100",
            "train.accumulate must be at most the batch_size of 64, not 100",
        ),
    ):
        with pytest.raises(ValueError, match="must be") as caught:
            parse("prune", Prune, [words])
        assert str(caught.value) == message


def test_the_config_of_a_run_can_be_given_again(tmp_path: Path) -> None:
    options = parse("prune", Prune, ["--seed=3", "--search.tau-start=5", "--mean", "0.5"])
    file = tmp_path / "config.toml"
    file.write_text(to_toml({"format": 2, **options.settings()}))
    assert parse("prune", Prune, ["--config", str(file)]).settings() == options.settings()


def test_default_folders_differ_by_seed() -> None:
    assert RunOptions(seed=1).folder() == Path("runs/resnet20-digits-seed1")
    assert RunOptions(seed=1).folder("prune-") == Path("runs/prune-resnet20-digits-seed1")
    other = Prune(metric="params", preset="scratch").folder("prune-0.5-")
    assert other == Path("runs/prune-0.5-params-scratch-resnet20-digits-seed0")


def test_presets_differ_by_where_they_start() -> None:
    for name, start in (("quick", "sensitivity"), ("scratch", "even"), ("paper", "scratch")):
        options = parse("prune", Prune, ["--teacher=weights.pt", f"--preset={name}"])
        assert options.search.start == start
        assert options.search.inherit == (name == "quick")
        assert options.student.transfer == ("init+kd" if name == "quick" else "kd")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--epochs", "abc"], "--epochs must be a whole number, not 'abc'"),
        (["--seed", "1.5"], "--seed must be a whole number, not '1.5'"),
        (["--ratios", "2", "x"], "--ratios must be numbers, not '2', 'x'"),
        (["--student.lr", "high"], "--student.lr must be a number, not 'high'"),
    ],
)
def test_words_that_are_no_numbers(words: list[str], message: str) -> None:
    with pytest.raises(ValueError, match="must be") as caught:
        parse("prune", Prune, words)
    assert str(caught.value) == message

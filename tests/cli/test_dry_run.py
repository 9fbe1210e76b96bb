"""What a command would take, before it takes it."""

import json
from pathlib import Path

import pytest

from transformable.cli import compare, prune
from transformable.cli.entry import main
from transformable.cli.pruning_options import Compare, Prune
from transformable.comparing.comparison import Comparison
from transformable.comparing.trials import Trial
from transformable.pruning.dry_run import JobEstimate

SHORT = ["--model=resnet20", "--data=digits", "--batch-size=32"]
PARTS = {"teacher": 100.0, "search": 20.0, "student": 30.0, "measuring the speed": 10.0}


def test_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prune", *SHORT, "--dry-run", "--json", f"--out={tmp_path / 'run'}"]) == 0
    seen = json.loads(capsys.readouterr().out)
    end = ["exporting", "measuring the speed"]
    assert list(seen["parts"]) == ["teacher", "search", "student", *end]
    assert all(seconds > 0 for seconds in seen["parts"].values())
    assert seen["seconds"] == pytest.approx(sum(seen["parts"].values()))
    assert seen["memory_bytes"] > 2**26
    assert not (tmp_path / "run").exists()


def test_a_job_looks_at_its_own_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def make_job(options: Prune, folder: Path, trial: Trial) -> None:
        raise ValueError(f"the folder is {folder}")

    monkeypatch.setattr(prune, "make_job", make_job)
    assert main(["prune", "--budget=0.4", "--method=fpgm", "--dry-run"]) == 2
    expected = "tas: error: the folder is runs/prune-fpgm-0.4-resnet20-digits-seed0\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize(
    ("command", "runs", "transfers"),
    [
        (["compare", "--methods=tas,pfec", "--seeds=3"], 6, 1),
        (["compare", "--methods=tas,pfec", "--transfer=none,kd"], 6, 2),
        (["sweep", "--budgets=0.3,0.5"], 2, 1),
        (["prune", "--budget=0.3,0.5"], 2, 1),
    ],
)
def test_many_runs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    runs: int,
    transfers: int,
) -> None:
    known = JobEstimate(seconds=PARTS, memory=2**30)
    monkeypatch.setattr(compare, "estimate_job", lambda job, session: known)
    arguments = [*command, *SHORT, "--dry-run", f"--out={tmp_path / 'run'}"]
    assert main([*arguments, "--json"]) == 0
    seen = json.loads(capsys.readouterr().out)
    each = 20.0 + transfers * 40.0  # one search, and a student for each kind of transfer
    assert (seen["runs"], seen["left"]) == (runs, runs)
    assert seen["seconds_per_run"] == each
    assert seen["seconds"] == 100.0 + runs * each
    assert not (tmp_path / "run").exists()
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert f"{runs} to do of {runs}, 1 at a time" in shown
    assert "about 1,024 MiB" in shown


A_FILE = "cannot write to run folder {}: it, or a folder around it, is a file"


@pytest.mark.parametrize(
    ("command", "out", "told"),
    [
        ("search", "file", A_FILE.format("file")),
        ("prune", "file", A_FILE.format("file")),
        ("prune --budget=0.3,0.5", "file", A_FILE.format("file")),
        ("prune", "file/run", A_FILE.format("file/run")),
        ("compare", ".", "folder . has files but no config.toml, so it is not a run folder"),
        ("sweep", ".", "folder . has files but no config.toml, so it is not a run folder"),
    ],
)
def test_a_folder_that_the_run_would_refuse(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    out: str,
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    assert main([*command.split(), *SHORT, "--dry-run", f"--out={out}"]) == 2
    assert f"{told}; choose another --out" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_comparison_says_how_long_it_will_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trials = [Trial(method="tas", budget="0.5", seed=seed) for seed in range(3)]
    facts: dict[str, object] = {"teacher": {}, "targets": {}}
    common = {"transfers": ["init"], "metric": "macs", "jobs": 1, "facts": facts}
    comparison = Comparison(folder=tmp_path, trials=trials, **common)  # type: ignore[arg-type]
    known = JobEstimate(seconds=PARTS, memory=2**30)
    monkeypatch.setattr(compare, "estimate_job", lambda job, session: known)
    compare.say_how_long(Compare(), comparison)
    assert capsys.readouterr().err == "3 runs of about 60.0 s each: about 4.7 min in all\n"
    # the teacher and one of the runs are there
    for folder in ("teacher", f"{trials[1].name}/init"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "result.json").write_text("{}")
    compare.say_how_long(Compare(), comparison)
    assert capsys.readouterr().err == "2 runs of about 60.0 s each: about 2.0 min in all\n"
    for trial in trials:
        (tmp_path / trial.name / "init").mkdir(parents=True, exist_ok=True)
        (tmp_path / trial.name / "init" / "result.json").write_text("{}")
    compare.say_how_long(Compare(), comparison)
    assert capsys.readouterr().err == ""

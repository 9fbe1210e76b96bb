"""SIGKILL at random moments: whatever a command was doing, the same command goes on to the same
bits, and there is nothing to clean by hand.

python tests/kill_at_random.py [--kills 40] [--seed 0] [--out FOLDER]
"""

import argparse
import csv
import json
import os
import random
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from support.command_process import start
from support.dropout_network import write_files

BUDGET = ["--budget=0.5", "--tolerance=0.2"]
COMMANDS = {
    "train": ["--epochs=5"],
    "search": ["--pretrain-epochs=1", "--epochs=3", *BUDGET],
    "distill": ["--epochs=5", "--teacher=train", "--shape=search/shape.json"],
    "prune": ["--teacher-epochs=2", "--search-epochs=2", "--epochs=2", "--no-export", *BUDGET],
}
EXACT = {
    *("model.safetensors", "shape.json", "network.json", "inputs.json", "config.toml"),
    *("steps.csv", "distributions.jsonl", "candidates.json"),
}
"""Files in which every byte must be the same; the others have times in them."""
CLOCKS = {"seconds", "samples_per_second"}


@dataclass(kw_only=True)
class Tally:
    """What came out for one command."""

    killed: int = 0
    while_saving: int = 0
    """How many of the kills left a checkpoint half written."""
    compared: int = 0
    """Runs that were killed, finished, and found equal to the one that was not killed."""


def prepare(folder: Path) -> None:
    write_files(folder, images=96)


def arguments(command: str) -> list[str]:
    source = ["--model=net.py:net", "--data=npz:tiny.npz", "--batch-size=8"]
    return [command, *source, *COMMANDS[command]]


def run_whole(folder: Path, command: str) -> float:
    """Run a command that nobody disturbs, in a folder of its name; returns its seconds."""
    begin = time.monotonic()
    process = start(folder, command, *arguments(command), checkpoint_seconds=0.0)
    process.join()
    assert process.exitcode == 0, (folder / f"{command}.err").read_text()
    return time.monotonic() - begin


def kill_often(
    folder: Path, command: str, kills: int, seconds: float, dice: random.Random
) -> Tally:
    """Start a command again and again, and kill it within so many seconds; every other time while
    it writes the next checkpoint after that."""
    tally, number, hit = Tally(), 0, False
    while tally.killed < kills:
        out = f"{command}-{number}"
        process = start(folder, out, *arguments(command), checkpoint_seconds=0.0)
        time.sleep(dice.uniform(0, seconds))
        if tally.killed % 2:
            stop_while_saving(process, folder / out)
        process.kill()
        process.join()
        if process.exitcode == -signal.SIGKILL:
            tally.killed, hit = tally.killed + 1, True
            tally.while_saving += half_written(folder / out)
        else:  # too late: what was killed before is finished, and the next one begins anew
            finish(folder, command, out)
            tally.compared, number, hit = tally.compared + hit, number + 1, False
            seconds *= 0.8
            assert seconds > 0.01, f"{command} ends before it can be killed"
    if hit:
        finish(folder, command, f"{command}-{number}")
    tally.compared += hit
    return tally


def stop_while_saving(process: BaseProcess, out: Path) -> None:
    """Let the process go on until a checkpoint is half written, or until it ends."""
    assert process.pid is not None
    while process.is_alive():
        if half_written(out):
            os.kill(process.pid, signal.SIGSTOP)
            while process.is_alive() and state_of(process.pid) not in "Tt":
                pass
            if half_written(out):
                return
            os.kill(process.pid, signal.SIGCONT)  # it was quicker


def state_of(pid: int) -> str:
    """The letter of the state of a process; T when it is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def half_written(out: Path) -> bool:
    return any(out.rglob(".checkpoint.pt.part"))


def finish(folder: Path, command: str, out: str) -> None:
    """Run a command that was killed to its end, and compare it with the one that was not."""
    process = start(folder, out, *arguments(command), checkpoint_seconds=0.0)
    process.join()
    said = (folder / f"{out}.err").read_text()
    assert process.exitcode == 0, said
    assert "error" not in said, said
    assert "damaged" not in said, said
    check_equal(folder / out, folder / command)
    shutil.rmtree(folder / out)


def check_equal(run: Path, whole: Path) -> None:
    assert files_of(run) == files_of(whole)
    for name in files_of(whole):
        mine, other = run / name, whole / name
        if mine.name in EXACT:
            assert mine.read_bytes() == other.read_bytes(), name
        elif mine.name == "metrics.csv":
            assert rows_of(mine) == rows_of(other), name
        elif mine.name == "result.json":
            assert numbers_of(mine) == numbers_of(other), name
        elif mine.name == "checkpoint.pt":
            mine_state, other_state = (flat(torch.load(path)) for path in (mine, other))
            assert mine_state == other_state, name


def files_of(run: Path) -> set[str]:
    """The files of a run by their names; of those of TensorBoard, and of the checkpoints before the
    last, there may be more or fewer."""
    names = (str(path.relative_to(run)) for path in run.rglob("*") if path.is_file())
    return {name for name in names if ".tfevents." not in name and ".previous." not in name}


def rows_of(path: Path) -> list[dict[str, str]]:
    rows = csv.DictReader(path.read_text().splitlines())
    return [{name: value for name, value in row.items() if name not in CLOCKS} for row in rows]


def numbers_of(path: Path) -> dict[str, Any]:
    """What a result says of the network: how good and how large it is."""
    result = json.loads(path.read_text())
    parts = {"": result, **{name: result[name] for name in ("before", "after") if name in result}}
    known = {"accuracy", "top5", "validation_accuracy", "n", "macs", "params", "shape"}
    return {
        f"{part} {key}": each[key] for part, each in parts.items() for key in known & each.keys()
    }


def flat(state: Any, name: str = "") -> dict[str, Any]:
    """The values of a checkpoint by their full names, tensors as bytes, without what clocks say."""
    if isinstance(state, torch.Tensor):
        return {name: (state.dtype, tuple(state.shape), state.contiguous().numpy().tobytes())}
    if isinstance(state, dict | list | tuple):
        pairs = state.items() if isinstance(state, dict) else enumerate(state)
        inner = [flat(value, f"{name}.{key}") for key, value in pairs if key not in CLOCKS]
        return {key: value for part in inner for key, value in part.items()}
    return {name: state}


def run(folder: Path, kills: dict[str, int], seed: int) -> dict[str, Tally]:
    """Kill each command so many times, in a folder that is empty; an AssertionError says what is
    different."""
    prepare(folder)
    start(folder, "warm", "--version").join()  # torch is imported now, and not while we count
    dice = random.Random(seed)
    tallies = {}
    for command in COMMANDS:
        seconds = run_whole(folder, command)
        tallies[command] = kill_often(folder, command, kills[command], seconds, dice)
    return tallies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    each = {name: len(range(i, args.kills, len(COMMANDS))) for i, name in enumerate(COMMANDS)}
    with tempfile.TemporaryDirectory() as place:
        folder = args.out or Path(place)
        folder.mkdir(parents=True, exist_ok=True)
        tallies = run(folder, each, args.seed)
    print("| command | killed | while a checkpoint was written | runs compared, all equal |")
    print("| --- | --- | --- | --- |")
    for name, tally in tallies.items():
        print(f"| {name} | {tally.killed} | {tally.while_saving} | {tally.compared} |")


if __name__ == "__main__":
    main()

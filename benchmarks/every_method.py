"""`tas prune --method M` for every method, on the digits: in the budget, exported, reported.

python benchmarks/every_method.py [--out runs/methods] [--methods fpgm,lccl] [tas prune options]
"""

import argparse
import contextlib
import io
import json
from pathlib import Path
from typing import Any

import transformable as tas
from transformable.cli import main
from transformable.methods import METHODS


def prune(method: str, folder: Path, options: list[str]) -> dict[str, Any]:
    """The result of one job, or why it failed."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(["prune", f"--method={method}", f"--out={folder}", "--json", *options])
    return json.loads(out.getvalue()) if status == 0 else {"error": err.getvalue().strip()}


def line(method: str, folder: Path, result: dict[str, Any]) -> str:
    if "error" in result:
        return f"| {method} | {result['error']} |"
    before, after, target = result["before"], result["after"], result["target"]
    metric = target["metric"]
    cost = after[metric]
    shown = f"{cost:.4f} ms" if metric == "latency" else f"{cost:,} {metric}"
    inside = "yes" if target["low"] <= cost <= target["high"] else "NO"
    files = ", ".join(sorted(name.partition(".")[2] for name in result["export"]["files"]))
    loaded = "yes" if tas.load(folder / "export") is not None else "NO"
    report = "yes" if (folder / "report.html").is_file() else "NO"
    return (
        f"| {method} | {before['accuracy']:.2%} | {after['accuracy']:.2%} | {shown} | {inside} | "
        f"{files} | {loaded} | {report} |"
    )


def run() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/methods"))
    parser.add_argument("--methods", default=",".join(METHODS))
    args, options = parser.parse_known_args()
    print("| method | unpruned | small | cost | in the band | exported | loads | report |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    teacher: list[str] = []
    for method in args.methods.split(","):
        folder = args.out / method
        result = prune(method, folder, [*options, *teacher])
        teacher = teacher or [f"--teacher={folder}"]
        print(line(method, folder, result), flush=True)


if __name__ == "__main__":
    run()

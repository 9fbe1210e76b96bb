"""Thousands of random inputs for the parsers, the readers and the tracing of networks.

python benchmarks/fuzz.py [--cases 5000] [--seed 0] [--only config,networks]
"""

import argparse
import collections
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.damaged_inputs import PARSERS
from support.random_networks import cases, check_case

TARGETS = {**PARSERS, "networks": (check_case, cases())}


def fuzz(check: Callable[[Any], Any], inputs: st.SearchStrategy[Any], number: int, at: int) -> Any:
    """How often each outcome was seen."""
    seen: collections.Counter[str] = collections.Counter()

    @seed(at)
    @settings(
        max_examples=number,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=inputs)
    def run(case: Any) -> None:
        try:
            outcome = check(case)
        except Exception:
            seen["WRONG"] += 1
            raise
        seen["accepted" if outcome in (True, "traced") else "refused"] += 1

    try:
        run()
    except Exception as error:
        print("".join(getattr(error, "__notes__", [])), f"\n{type(error).__name__}: {error}")
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(TARGETS))
    args = parser.parse_args()
    torch.set_num_threads(1)
    chosen = args.only.split(",")
    wrong = 0
    print("| what | cases | accepted | refused with one line | wrong | seconds |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in chosen:
        begin = time.monotonic()
        seen = fuzz(*TARGETS[name], -(-args.cases // len(chosen)), args.seed)
        wrong += seen["WRONG"]
        counts = " | ".join(str(seen[kind]) for kind in ("accepted", "refused", "WRONG"))
        seconds = time.monotonic() - begin
        print(f"| {name} | {seen.total()} | {counts} | {seconds:.0f} |", flush=True)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

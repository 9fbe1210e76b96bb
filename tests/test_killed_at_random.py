"""The short form of ``kill_at_random.py``."""

from pathlib import Path

from kill_at_random import run


def test_killed_commands_go_on_to_the_same_bits(tmp_path: Path) -> None:
    kills = {"train": 1, "search": 2, "distill": 1, "prune": 2}
    tallies = run(tmp_path, kills, seed=0)
    assert {command: tally.killed for command, tally in tallies.items()} == kills
    assert all(tally.compared for tally in tallies.values())
    # the second one of a command is killed while it writes a checkpoint
    assert sum(tally.while_saving for tally in tallies.values()) >= 2

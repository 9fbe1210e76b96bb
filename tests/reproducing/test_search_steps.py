"""What a search step takes, measured."""

import multiprocessing
from pathlib import Path

import pytest

from transformable.reproducing import search_steps
from transformable.reproducing.search_steps import _step_when_asked, measure_search_steps
from transformable.settings import Searching

SETTINGS = Searching(epochs=1, batch_size=2)


class AskedTwice:
    """Takes the place of the connection to the process that asks."""

    def __init__(self) -> None:
        self.asked = 0
        self.sent: list[tuple[float, float, int]] = []

    def recv(self) -> None:
        self.asked += 1
        if self.asked > 2:
            raise EOFError

    def send(self, values: tuple[float, float, int]) -> None:
        self.sent.append(values)


def test_where_the_system_has_no_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    pipe = AskedTwice()
    _step_when_asked(pipe, SETTINGS, "cpu", "resnet20", threads=1)
    assert len(pipe.sent) == 2
    for seconds, processor, memory in pipe.sent:
        assert seconds > 0
        assert processor > 0
        # the peak since the start of this process, which may be earlier than these steps
        assert 0 <= memory < 2**31


def test_the_processes_step_in_turn_and_the_first_step_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order = []

    def asked(_: object, select: int) -> tuple[float, float, int]:
        order.append(select)
        first = len(order) <= 2
        return (99.0, 99.0, 1) if first else (select * len(order), 1.0, select * len(order))

    monkeypatch.setattr(search_steps, "_ask", asked)
    monkeypatch.setattr(search_steps, "_step_when_asked", print)
    forked = multiprocessing.get_context("fork")  # starts sooner
    monkeypatch.setattr(multiprocessing, "get_context", lambda _: forked)
    found = measure_search_steps([1, 8], 3, "cpu", SETTINGS)
    assert order == [1, 8] * 4
    assert [each["seconds"] for each in found] == [5, 8 * 6]
    assert [each["memory_bytes"] for each in found] == [7, 8 * 8]


def test_a_process_that_ends_early_is_named() -> None:
    with pytest.raises(ValueError, match=r"\|I\| = 3 ended early; probably out of memory"):
        measure_search_steps([3], 1, "cpu", SETTINGS, model="no such network")

"""What a search step takes, measured."""

from pathlib import Path

import pytest

from transformable.reproducing.search_steps import _measure
from transformable.settings import Searching


class Sent:
    """Takes the place of the connection to the process that asked."""

    def send(self, values: tuple[float, float, int]) -> None:
        self.seconds, self.processor, self.memory = values


def test_where_the_system_has_no_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    results, settings = Sent(), Searching(epochs=1, batch_size=2)
    _measure(results, 2, 1, "cpu", settings, "resnet20", threads=1)
    assert results.seconds > 0
    assert results.processor > 0
    # the peak since the start of this process, which may be earlier than these steps
    assert 0 <= results.memory < 2**31

"""What this package warns of is one line for a person."""

import warnings

import pytest

from transformable.cli import entry
from transformable.cli.streams import show_warnings_in_one_line


def test_a_warning_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    others: list[str] = []
    monkeypatch.setattr(warnings, "showwarning", lambda message, *_: others.append(message))
    show_warnings_in_one_line()
    warnings.showwarning("a photo is damaged", UserWarning, entry.__file__, 7)
    assert capsys.readouterr().err == "tas: warning: a photo is damaged\n"
    warnings.showwarning("something of torch", UserWarning, "torch/nn.py", 7)
    assert others == ["something of torch"]

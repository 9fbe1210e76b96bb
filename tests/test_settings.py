"""Settings say which field is wrong, and what it should be."""

import re
from typing import Any

import numpy as np
import pytest

from transformable import Distilling, Searching, Training


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (Training, {"epochs": "3"}, "epochs must be a whole number, not '3'"),
        (Training, {"epochs": 1.5}, "epochs must be a whole number, not 1.5"),
        (Training, {"batch_size": True}, "batch_size must be a whole number, not True"),
        (Training, {"lr": "0.1"}, "lr must be a number, not '0.1'"),
        (Training, {"lr": [0.1]}, "lr must be a number, not [0.1]"),
        (Training, {"nesterov": "no"}, "nesterov must be True or False, not 'no'"),
        (Searching, {"judged": "4"}, "judged must be a whole number, not '4'"),
        (Distilling, {"kd_lambda": "half"}, "kd_lambda must be a number, not 'half'"),
        (Training, {"lr": float("nan")}, "lr must be at least 0, not nan"),
        (Training, {"epochs": 10**21}, f"epochs must be at most 1,000,000, not {10**21}"),
    ],
)
def test_values_of_another_type_are_refused(
    kind: Any, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        kind(**fields)


def test_whole_numbers_are_numbers() -> None:
    assert Training(lr=1).lr == 1
    assert Training(epochs=int(np.int64(3)), lr=float(np.float32(0.5))).lr == 0.5
    assert Training(epochs=np.int64(3)).epochs == 3  # type: ignore[arg-type]

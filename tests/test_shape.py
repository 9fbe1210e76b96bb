import json
from typing import Any

import numpy as np
import pytest

from transformable import Shape

SHAPE = Shape(widths={"a": 3, "b": 2}, depths={"s": 1}, channels={"b": (0, 4)})


def test_json_goes_there_and_back() -> None:
    assert Shape.from_json(SHAPE.to_json()) == SHAPE
    assert json.loads(SHAPE.to_json())["channels"] == {"b": [0, 4]}


def test_a_dict_goes_there_and_back_with_its_channels() -> None:
    record = SHAPE.to_dict()
    assert record == {"widths": {"a": 3, "b": 2}, "depths": {"s": 1}, "channels": {"b": [0, 4]}}
    assert Shape.from_dict(record) == SHAPE
    assert Shape({"a": 3}).to_dict() == {"widths": {"a": 3}, "depths": {}}
    with pytest.raises(ValueError, match="a shape has no 'width'"):
        Shape.from_dict({"widths": {}, "width": {}})


def test_equal_shapes_have_equal_hashes_and_different_ones_differ() -> None:
    assert hash(Shape({"a": 3})) == hash(Shape({"a": 3}))
    assert Shape({"a": 3}) != Shape({"a": 4})
    assert len({Shape({"a": 3}), Shape({"a": 3}), Shape({"a": 3}, {"s": 1})}) == 2


def test_replacing_a_width_forgets_the_channels_that_were_picked() -> None:
    assert SHAPE.replace(widths={"b": 5}) == Shape({"a": 3, "b": 5}, {"s": 1})
    assert SHAPE.replace(depths={"s": 2}).channels == {"b": (0, 4)}


def test_a_shape_does_not_change_with_the_dict_it_was_made_from() -> None:
    widths = {"a": 3}
    shape = Shape(widths)
    widths["a"] = 7
    assert shape.widths == {"a": 3}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"widths": {"a": 0}, "depths": {}}',
            "the width of 'a' must be an integer from 1 to 1,000,000, not 0",
        ),
        (
            '{"widths": {"a": 1.5}}',
            "the width of 'a' must be an integer from 1 to 1,000,000, not 1.5",
        ),
        (
            '{"widths": {"a": true}}',
            "the width of 'a' must be an integer from 1 to 1,000,000, not True",
        ),
        ('{"widths": {}, "depths": {"s": -1}}', "the depth of 's' must be"),
        ('{"widths": {"a": 2}, "channels": {"a": [0]}}', "1 channels of 'a', but its width is 2"),
        ('{"widths": {"a": 2}, "channels": {"a": [1, 0]}}', "must be sorted, each once"),
        ('{"widths": {"a": 2}, "channels": {"a": [1, 1]}}', "must be sorted, each once"),
        ('{"widths": {"a": 1}, "channels": {"a": [-1]}}', "must be integers of 0 or more"),
        ('{"widths": [1]}', "widths must map names to sizes"),
        ('{"widths": {}, "width": {}}', "a shape has no 'width'"),
        ('{"depths": {}}', 'a JSON object with "widths"'),
        ("{", "a shape must be JSON"),
    ],
)
def test_impossible_values_are_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        Shape.from_json(text)
    assert "\n" not in str(error.value)


def test_integers_of_numpy_become_plain_ones() -> None:
    chosen = tuple(np.array([0, 2]))
    width: Any = np.int64(2)
    shape = Shape({"a": width}, {}, {"a": chosen})
    assert shape.to_json() == '{"widths": {"a": 2}, "depths": {}, "channels": {"a": [0, 2]}}'
    with pytest.raises(ValueError, match="the channels of 'a' must be integers of 0 or more"):
        Shape({"a": 1}, {}, {"a": (True,)})
    with pytest.raises(ValueError, match="must be an integer from 1 to 1,000,000, not 2000000"):
        Shape({"a": 2_000_000})

"""Parsers and readers on random input: right, or refused with one line."""

import pytest
from hypothesis import given, settings

from support.damaged_inputs import PARSERS


@pytest.mark.parametrize("name", PARSERS)
def test_random_input_is_read_rightly_or_refused_with_one_line(name: str) -> None:
    check, inputs = PARSERS[name]
    accepted = []

    @settings(max_examples=60, derandomize=True, database=None, deadline=None)
    @given(case=inputs)
    def run(case: object) -> None:
        accepted.append(check(case))

    run()
    # neither all good nor all bad, or little would be tried
    assert set(accepted) == {True, False}

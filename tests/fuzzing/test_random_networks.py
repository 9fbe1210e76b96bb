"""Tracing, counting and slimming on random small networks."""

from hypothesis import given, settings

from support.random_networks import Case, cases, check_case


def test_random_networks_cost_what_torch_counts() -> None:
    seen = []

    @settings(max_examples=60, derandomize=True, database=None, deadline=None)
    @given(case=cases())
    def run(case: Case) -> None:
        seen.append(check_case(case))

    run()
    assert seen.count("traced") > 50

"""Tracing from several threads at once."""

from concurrent.futures import ThreadPoolExecutor

import transformable as tas


def test_threads_do_not_disturb_each_other() -> None:
    def count(_: int) -> int:
        space = tas.Space.trace(tas.models.build("resnet20"), (3, 32, 32))
        return tas.macs(space, space.full)

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(count, range(12))) == {40813194}

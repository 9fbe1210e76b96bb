"""How long `tas.macs` takes for a random shape, in milliseconds (median over many shapes).

python benchmarks/cost_speed.py
"""

import statistics
import time

import torch

import transformable as tas


def main() -> None:
    for name in ("resnet20", "resnet56", "resnet110", "resnet164", "mobilenet_v2"):
        space = tas.Space.trace(tas.models.build(name), (3, 32, 32))
        generator = torch.Generator().manual_seed(0)
        shapes = [space.sample(generator) for _ in range(300)]
        times = []
        for shape in shapes:
            start = time.perf_counter()
            tas.macs(space, shape)
            times.append(time.perf_counter() - start)
        print(f"{name:13} {1e3 * statistics.median(times):.3f} ms")


if __name__ == "__main__":
    main()

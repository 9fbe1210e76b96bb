"""A network that somebody else trained keeps its accuracy through trace and slim.

The weights are those of resnet20 in the public repository akamaster/pytorch_resnet_cifar10, the
images CIFAR-10's test set, normalised with ImageNet's mean and std as they were in its training.

    python benchmarks/pretrained.py --weights resnet20-12fca82f.th --data-dir DIR
"""

import argparse
import json
import sys
from pathlib import Path

import torch

import transformable as tas
from transformable.methods.random import draw_shape
from transformable.networks.weights import load_weights

# a network with padded shortcuts, written as a user would
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.networks import PaddedResNet

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--data-dir", required=True)
    args = parser.parse_args()

    network = PaddedResNet().eval()
    load_weights(network, args.weights)
    test = tas.data.load("cifar10", args.data_dir, mean=MEAN, std=STD).test

    space = tas.Space.trace(network, (3, 32, 32))
    same = tas.slim(network, space, space.full)
    equal = all(torch.equal(network(x), same(x)) for x, _ in test.ordered(500))
    shape = draw_shape(space, tas.Budget.of(0.5, space), torch.Generator().manual_seed(0))
    half = tas.slim(network, space, shape)
    result = {
        "macs": tas.macs(space, space.full),
        "accuracy": tas.evaluate(network, test)["accuracy"],
        "accuracy_slim_full": tas.evaluate(same, test)["accuracy"],
        "logits_bit_equal": equal,
        "accuracy_random_half_untrained": tas.evaluate(half, test)["accuracy"],
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    with torch.no_grad():
        main()

"""What becomes of filters that soft pruning (SFP) has set to zero, in the steps after.

A trained network is pruned softly once and trained on; then for each group of channels the mean
squared norm of the filters that were kept and of those that were set to zero.

    python benchmarks/soft_pruning.py --data-dir DIR --teacher runs/teacher
"""

import argparse
import itertools
import json
from pathlib import Path

import torch
import torch.nn.functional as F

import transformable as tas
from transformable.methods._channel_choice import keep_by_ratio
from transformable.methods._criteria import filter_norms
from transformable.methods.sfp import zero_filters
from transformable.tracing.channel_groups import ChannelGroups


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-dir", required=True, help="holds the files of CIFAR-10")
    parser.add_argument("--teacher", required=True, help="run folder of tas train")
    parser.add_argument("--size", type=int, default=16, help="images are averaged to this size")
    parser.add_argument("--steps", type=int, default=121)
    args = parser.parse_args()
    dataset = tas.data.load(f"cifar10:{args.size}", args.data_dir, validation=0.05)
    net = tas.load(Path(args.teacher)).train()
    space = tas.Space.trace(net, dataset.info.input_shape)
    groups, budget = ChannelGroups(space), tas.Budget.of(0.5, space)
    kept = groups.kept(keep_by_ratio(groups, budget, filter_norms(net, groups, p=2)))
    zero_filters(net, groups, groups.shape(kept))
    optimizer = torch.optim.SGD(
        net.parameters(), lr=0.025, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    batches = dataset.train.shuffled(128, seed=0, epoch=0)
    for x, y in itertools.islice(batches, args.steps):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    for head, norms in filter_norms(net, groups, p=2).items():
        stayed = torch.zeros(len(norms), dtype=torch.bool)
        stayed[kept[head]] = True
        means = {"kept": float(norms[stayed].mean()), "zeroed": float(norms[~stayed].mean())}
        print(json.dumps({"group": head, **{name: round(v, 2) for name, v in means.items()}}))


if __name__ == "__main__":
    main()

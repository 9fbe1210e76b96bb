"""What may change in the networks of others: the table of docs/networks.md.

    pip install timm
    python benchmarks/networks.py > docs/networks.md
    python benchmarks/networks.py --timm resnet50 convnext_atto

Each network is traced, cut to a random shape and counted: MACs and parameters must be those of the
network that comes out, and the full shape must give the same outputs to the last bit. A network
that fails is an error, not a row.
"""

import argparse
import re

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.conv import _ConvNd
from torch.utils.flop_counter import FlopCounterMode

import transformable as tas
from transformable.costing.cost import layer_costs
from transformable.tracing.fixed_layers import like_reasons

FAMILIES = """
resnet18 resnet50d resnetv2_50 resnetv2_50d_gn seresnet50 skresnet18 ecaresnet26t gcresnet33ts
resnext50_32x4d res2net50_26w_4s resnest14d tresnet_m lambda_resnet26t nf_resnet50 nf_regnet_b0
vgg16 densenet121 dpn68 dla34 inception_v3 xception41 selecsls42 vovnet39a hrnet_w18_small
cspdarknet53 cs3darknet_s darknet17 gernet_s repvgg_a0 regnety_002 regnetz_005 rexnet_100
mobilenetv2_100 mobilenetv3_small_100 mobilenetv4_conv_small mobileone_s0 mnasnet_100 semnasnet_075
fbnetc_100 hardcorenas_a tinynet_e lcnet_050 mixnet_s efficientnet_b0 tf_efficientnet_lite0
efficientnetv2_rw_t ghostnet_100 ghostnetv2_100 repghostnet_050 hgnetv2_b0 fasternet_t0 starnet_s1
repvit_m0_9 fastvit_t8 swiftformer_xs convnext_atto convnextv2_atto edgenext_xx_small
focalnet_tiny_srf inception_next_atto poolformer_s12 mambaout_femto efficientvit_b0 mobilevit_xxs
pvt_v2_b0
""".split()  # noqa: SIM905

HEAD = """# Networks of others

What may change in networks that were written without this project, by
`python benchmarks/networks.py` (timm {version}; {count} families, images of {size} x {size} pixels,
10 classes). *Layers* are the convolutions and linear layers whose inputs or outputs can become
narrower, of all there are; *widths* and *depths* the choices of the search; *least* is the smallest
share of the MACs that the candidates reach. The last column says how many layers keep their width,
and the most frequent reasons. In every row the counts of a random shape are those of the network
that `slim` makes of it, to the last unit, and the full shape gives the same outputs, bit for bit.

| network | layers | widths | depths | least | fixed, and why |
| --- | --- | --- | --- | --- | --- |"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--timm", nargs="+", default=FAMILIES, metavar="NAME")
    parser.add_argument("--size", type=int, default=96)
    options = parser.parse_args()
    import timm

    print(HEAD.format(version=timm.__version__, count=len(options.timm), size=options.size))
    for name in options.timm:
        torch.manual_seed(0)
        model = timm.create_model(name, num_classes=10).eval()
        size = 160 if name.startswith("inception_v") else options.size  # it takes no smaller ones
        print(f"| {name} | {' | '.join(row(model, (3, size, size)))} |", flush=True)


def row(model: nn.Module, input_shape: tuple[int, ...]) -> list[str]:
    """The columns of a network, after a check that all of it is right."""
    space = tas.Space.trace(model, input_shape)
    check(model, space)
    narrow = space.smallest.replace(depths=dict(space.full.depths))
    costs = [
        {layer.name: layer.params for layer in layer_costs(space, s)} for s in (narrow, space.full)
    ]
    kinds = _ConvNd, nn.Linear
    layers = [name for name, m in model.named_modules() if isinstance(m, kinds)]
    changed = [name for name in layers if name in costs[1] and costs[0][name] != costs[1][name]]
    least = tas.macs(space, space.smallest) / tas.macs(space, space.full)
    return [
        f"{len(changed)} of {len(layers)}",
        str(len(space.widths)),
        str(len(space.depths)),
        f"{least:.3f}",
        reasons(space),
    ]


def check(model: nn.Module, space: tas.Space) -> None:
    images = torch.randn(2, *space.input_shape, generator=torch.Generator().manual_seed(0))
    shape = space.sample(torch.Generator().manual_seed(1))
    small = tas.slim(model, space, shape).eval()
    # attention as its products: the counter does not know the fused one of CPUs
    unfused = sdpa_kernel(SDPBackend.MATH)
    with torch.no_grad(), unfused, FlopCounterMode(display=False) as counter:
        small(images[:1])
    linears = [m for m in small.modules() if isinstance(m, nn.Linear) and m.bias is not None]
    counted = counter.get_total_flops() // 2 + sum(m.out_features for m in linears)
    assert tas.macs(space, shape) == counted
    assert tas.params(space, shape) == sum(p.numel() for p in small.parameters())
    with torch.no_grad():
        assert torch.equal(tas.slim(model, space, space.full)(images), model(images))


def reasons(space: tas.Space) -> str:
    """How many layers are fixed, and the three most frequent reasons, each with an example."""
    found = []
    for names, reason in like_reasons(space.fixed)[:3]:
        reason = reason.replace("|", "/").replace("symbolically traced variables", "its values")
        reason = re.sub(r"'([^']*)'", r"`\1`", reason)
        found.append(f"{len(names)}: {reason}")
    return "; ".join(found) or "nothing"


if __name__ == "__main__":
    main()

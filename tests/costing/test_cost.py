import torch
from torch import Tensor, nn

import transformable as tas
from support.networks import VGG
from transformable.costing.cost import layer_costs


def test_costs_of_a_chain_by_hand() -> None:
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Conv2d(8, 8, 3, 2, groups=8),
        nn.Conv2d(8, 4, 1, bias=False), nn.PReLU(), nn.Flatten(), nn.Linear(4 * 3 * 3, 5),
    )  # fmt: skip
    space = tas.Space.trace(network, (3, 8, 8))
    shape = tas.Shape({"0": 5, "3": 2})
    assert tas.macs(space, shape) == 3 * 5 * 9 * 64 + 5 * 9 * 9 + 5 * 2 * 9 + (2 * 9 + 1) * 5
    weights = (3 * 9 + 1) * 5 + 2 * 5 + (9 + 1) * 5 + 5 * 2 + 1 + (2 * 9 + 1) * 5
    assert tas.params(space, shape) == weights


def test_rows_add_up_and_say_what_they_count() -> None:
    space = tas.Space.trace(VGG(), (3, 16, 16))
    shape = space.sample(torch.Generator().manual_seed(0))
    rows = layer_costs(space, shape)
    assert sum(row.macs for row in rows) == tas.macs(space, shape)
    assert sum(row.params for row in rows) == tas.params(space, shape)
    second = next(row for row in rows if row.name == "features.4")
    assert (second.kind, second.kernel, second.size) == ("conv", (3, 3), (8, 8))
    assert (second.inputs, second.outputs) == (
        shape.widths["features.0"],
        shape.widths["features.4"],
    )


def test_a_projection_is_a_row_of_its_own() -> None:
    space = tas.Space.trace(tas.models.build("resnet20"), (3, 32, 32), residual="project")
    assert len(layer_costs(space, space.full)) == 19 + 19 + 2 + 1
    shape = space.full.replace(widths={"stages.0.1.conv2": 9})
    rows = {row.name: row for row in layer_costs(space, shape)}
    assert rows["stages.0.1.shortcut.0"].macs == 16 * 9 * 32 * 32
    assert rows["stages.0.1.shortcut.1"].params == 18
    assert rows["stages.0.2.shortcut.0"].macs == 9 * 16 * 32 * 32


def test_dropped_blocks_cost_nothing() -> None:
    space = tas.Space.trace(tas.models.build("resnet20"), (3, 32, 32))
    shape = space.full.replace(depths={"stages.0": 1, "stages.2": 2})
    block = 2 * 16 * 16 * 9 * 32 * 32
    assert tas.macs(space, shape) == 40813194 - 2 * block - 2 * 64 * 64 * 9 * 8 * 8


class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1, bias=False)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.encoder = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).flatten(2).transpose(1, 2)
        encoded: Tensor = self.encoder(self.attention(x, x, x)[0])
        return encoded.mean(1)


def test_attention_counts_its_projections_and_its_products() -> None:
    before = torch.backends.mha.get_fastpath_enabled()
    space = tas.Space.trace(Attending(), (3, 4, 4))
    assert torch.backends.mha.get_fastpath_enabled() == before
    rows = {row.name: row for row in layer_costs(space, space.full)}
    # 16 tokens of 32 channels: four projections, queries with keys and weights with values, and
    # one for each bias of a linear layer
    attention = 4 * 16 * 32 * 32 + 2 * 16 * 16 * 32 + 32
    assert rows["attention"].macs == attention
    assert rows["encoder"].macs == attention + 2 * 16 * 32 * 64 + (64 + 32)
    assert rows["attention"].outputs == 32
    assert tas.macs(space, space.full) == sum(row.macs for row in rows.values())

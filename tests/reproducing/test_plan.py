"""Which runs the tables need, and what they share."""

from dataclasses import replace

import pytest

from transformable.methods import METHODS
from transformable.reproducing.costs import batch_epochs
from transformable.reproducing.figure4 import strategies
from transformable.reproducing.lines import Section, sections
from transformable.reproducing.plan import Batch, Study, studies_of
from transformable.reproducing.scales import SCALES, TABLES, ScaleName


def planned(scale: ScaleName, *tables: str, data: tuple[str, ...] = ()) -> list[Study]:
    settings = SCALES[scale]
    found: list[Section] = []
    for table in tables:
        found += sections(table, settings, (), data or settings.data[table])
    return studies_of(found)


TABLE1 = Batch(
    budget="0.615", methods=("uniform", "random", "tas"), transfers=("none", "init", "kd")
)


def test_table1_at_the_scale_of_the_paper() -> None:
    assert planned("paper", "table1") == [
        Study(model="resnet32", data="cifar100", batches=(TABLE1,), published=("C100-ResNet32",))
    ]


def test_table1_on_other_images_is_the_same() -> None:
    [study] = planned("small", "table1", data=("cifar10:16",))
    assert study.batches == (TABLE1,)
    assert study.name == study.teacher == "resnet32-cifar10-16"


def test_table2_has_a_search_for_each_i_and_one_teacher() -> None:
    base, *others = planned("small", "table2")
    assert (base.name, base.batches, base.published) == (
        "resnet32-cifar10-16",
        (),
        ("C010-ResNet32",),
    )
    assert [study.select for study in others] == [1, 2, 3, 5, 8]
    assert {study.teacher for study in others} == {base.name}
    assert {study.batches for study in others} == {
        (Batch(budget="0.56", methods=("tas",), transfers=("kd",)),)
    }
    # the search itself is the scale's but for |I|
    settings = SCALES["small"].searching("cifar10:16", 1)
    assert (settings.select, settings.force) == (1, True)
    assert replace(settings, select=8, force=False) == SCALES["small"].searching("cifar10:16")


def test_table3_in_small() -> None:
    studies = planned("small", "table3")
    assert [study.name for study in studies] == ["resnet20-cifar10-16", "resnet20-cifar100-16"]
    for study in studies:
        assert study.batches == (
            Batch(budget="0.550", methods=("lccl", "sfp", "fpgm"), transfers=("init",)),
            Batch(budget="0.550", methods=("tas-depth", "tas-width", "tas"), transfers=("kd",)),
        )


def test_table3_of_the_paper_has_every_method_on_every_network() -> None:
    studies = planned("paper", "table3")
    assert [(study.model, study.data, study.batches[0].budget) for study in studies] == [
        ("resnet20", "cifar10", "0.550"),
        ("resnet32", "cifar10", "0.506"),
        ("resnet56", "cifar10", "0.473"),
        ("resnet110", "cifar10", "0.470"),
        ("resnet164", "cifar10", "0.719"),
        ("resnet20", "cifar100", "0.550"),
        ("resnet32", "cifar100", "0.615"),
        ("resnet56", "cifar100", "0.487"),
        ("resnet110", "cifar100", "0.474"),
        ("resnet164", "cifar100", "0.691"),
    ]
    for study in studies:
        assert {name for batch in study.batches for name in batch.methods} == set(METHODS)
        assert len(study.published) == 1


def test_table4() -> None:
    [study] = planned("small", "table4")
    assert (study.model, study.data) == ("resnet18", "cifar10:16")
    assert study.batches == (
        Batch(budget="0.667", methods=("lccl", "sfp", "fpgm"), transfers=("init",)),
        Batch(budget="0.667", methods=("tas",), transfers=("kd",)),
    )
    assert study.published == ("ImageNet-ResNet18V1",)
    both = planned("paper", "table4", data=("folder:imagenet",))
    assert [(study.model, study.batches[0].budget) for study in both] == [
        ("resnet18", "0.667"),
        ("resnet50", "0.565"),
    ]


def test_tables_share_teachers_and_runs() -> None:
    """TAS with kd on ResNet-32 and CIFAR-100 stands in tables 1 and 3, and is run once."""
    tables = ("table1", "table3")
    together = planned("paper", *tables)
    assert len(together) == 10
    [shared] = [study for study in together if study.name == "resnet32-cifar100"]
    assert shared.batches[0] == TABLE1
    runs = [
        (batch.budget, method, transfer)
        for batch in shared.batches
        for method in batch.methods
        for transfer in batch.transfers
    ]
    assert len(runs) == len(set(runs)) == 9 + len(METHODS) - 3
    assert shared.published == ("C100-ResNet32",)


def test_a_teacher_alone() -> None:
    assert studies_of([], [("resnet20", "digits")]) == [Study(model="resnet20", data="digits")]


def test_eight_strategies() -> None:
    assert [each.name for each in strategies()] == [
        *("pool-gumbel-0", "pool-softmax-0", "pad-gumbel-0", "pad-softmax-0"),
        *("pool-gumbel-2", "pool-softmax-2", "pad-gumbel-2", "pad-softmax-2"),
    ]
    settings = [each.settings(SCALES["paper"].strategy("cifar100")) for each in strategies()]
    assert {each.epochs for each in settings} == {600}
    assert [each.lambda_cost for each in settings] == [0.0] * 4 + [2.0] * 4


@pytest.mark.parametrize(("method", "search"), [("uniform", 0), ("tas", 2)])
def test_epochs_of_a_trial(method: str, search: int) -> None:
    """Three students of 0.615 of the work, one of them with the answers of the teacher."""
    epochs = batch_epochs(TABLE1, method, SCALES["small"], "cifar10:16")
    assert epochs == pytest.approx(search + 4 * (3 * 0.615 + 1 / 3))


def test_the_scale_of_the_paper_is_its_schedule() -> None:
    scale = SCALES["paper"]
    assert set(scale.networks) == set(scale.data) == {*TABLES, "figure4"}
    assert [
        (scale.training(d).epochs, scale.searching(d).epochs, scale.distilling(d).epochs)
        for d in ("cifar100", "folder:imagenet")
    ] == [(300, 600, 300), (120, 120, 120)]
    assert (scale.residual, scale.tolerance) == ("project", 0.05)

"""The paper's printed figures, against each other and against the published networks."""

from collections import Counter

import pytest

from transformable.costing.published import published
from transformable.reproducing.paper import PaperRow, paper_rows

TABLES = ("table1", "table2", "table3", "table4")


def rows(table: str, **wanted: object) -> list[PaperRow]:
    return [
        row
        for row in paper_rows(table)
        if all(getattr(row, name) == value for name, value in wanted.items())
    ]


def test_every_row_is_there() -> None:
    assert {table: len(paper_rows(table)) for table in TABLES} == {
        "table1": 9,
        "table2": 5,
        "table3": 47,
        "table4": 10,
    }
    of_table3 = Counter((row.network, row.dataset) for row in paper_rows("table3"))
    assert of_table3 == {
        ("resnet20", "cifar10"): 6,
        ("resnet20", "cifar100"): 6,
        ("resnet32", "cifar10"): 6,
        ("resnet32", "cifar100"): 6,
        ("resnet56", "cifar10"): 6,
        ("resnet56", "cifar100"): 4,
        ("resnet110", "cifar10"): 5,
        ("resnet110", "cifar100"): 4,
        ("resnet164", "cifar10"): 2,
        ("resnet164", "cifar100"): 2,
    }


def test_table1() -> None:
    accuracies = {(row.method, row.transfer): row.accuracy for row in paper_rows("table1")}
    assert accuracies == {
        ("uniform", "none"): 68.18,
        ("uniform", "init"): 69.34,
        ("uniform", "kd"): 71.40,
        ("random", "none"): 68.57,
        ("random", "init"): 69.14,
        ("random", "kd"): 71.71,
        ("tas", "none"): 68.95,
        ("tas", "init"): 69.70,
        ("tas", "kd"): 72.41,
    }
    assert {row.method: row.macs for row in paper_rows("table1")} == {
        "uniform": 41_100_000,
        "random": 42_900_000,
        "tas": 42_500_000,
    }


def test_table2() -> None:
    assert [
        (r.select, r.search_hours, r.memory_gb, r.train_hours, r.macs / 1e6, r.accuracy)
        for r in paper_rows("table2")
    ] == [
        (1, 2.83, 1.5, 0.71, 23.59, 89.85),
        (2, 3.83, 2.4, 0.84, 38.95, 92.98),
        (3, 4.94, 3.4, 0.67, 39.04, 92.63),
        (5, 7.18, 5.1, 0.60, 37.08, 93.18),
        (8, 10.64, 7.3, 0.81, 38.28, 92.65),
    ]


@pytest.mark.parametrize("table", ["table3", "table4"])
def test_accuracy_and_drop_give_one_unpruned_network(table: str) -> None:
    """The rows of TAS on one network and dataset have the same unpruned network behind them."""
    for network, dataset in {(row.network, row.dataset) for row in paper_rows(table)}:
        before = [
            row.accuracy + row.drop
            for row in rows(table, network=network, dataset=dataset)
            if row.method.startswith("tas") and row.accuracy is not None and row.drop is not None
        ]
        assert max(before) - min(before) < 0.025
        assert before


@pytest.mark.parametrize("table", ["table1", "table3", "table4"])
def test_published_networks_cost_what_is_printed(table: str) -> None:
    """To the digits that are printed; the authors have published two networks for some rows."""
    for row in rows(table, method="tas"):
        counts = [
            network.macs
            for network in published()
            if (network.network, network.dataset) == (row.network, row.dataset)
        ]
        assert min(abs(count - row.macs) for count in counts) <= 0.005 * row.macs


def test_pruned_shares_are_those_of_the_macs() -> None:
    """Of the unpruned networks here, for the rows of TAS."""
    whole = {"resnet20": 40.8e6, "resnet32": 69.1e6, "resnet56": 125.7e6, "resnet110": 253.1e6}
    whole |= {"resnet164": 247.6e6}
    for row in paper_rows("table3"):
        if row.method.startswith("tas"):
            assert row.pruned is not None
            assert 100 * (1 - row.macs / whole[row.network]) == pytest.approx(row.pruned, abs=0.3)


def test_rows_of_sfp_and_fpgm_have_the_same_cost() -> None:
    for table in ("table3", "table4"):
        for fpgm in rows(table, method="fpgm"):
            if fpgm.network == "resnet50":  # printed differently there
                continue
            [sfp] = rows(table, method="sfp", network=fpgm.network, dataset=fpgm.dataset)
            assert (sfp.macs, sfp.pruned) == (fpgm.macs, fpgm.pruned)


def test_table4_is_as_printed() -> None:
    found = {
        (r.network, r.name): (r.accuracy, r.drop, r.top5, r.top5_drop, r.macs / 1e9, r.pruned)
        for r in paper_rows("table4")
    }
    assert found == {
        ("resnet18", "LCCL"): (66.33, 3.65, 86.94, 2.29, 1.19, 34.6),
        ("resnet18", "SFP"): (67.10, 3.18, 87.78, 1.85, 1.06, 41.8),
        ("resnet18", "FPGM"): (68.41, 1.87, 88.48, 1.15, 1.06, 41.8),
        ("resnet18", "TAS"): (69.15, 1.50, 89.19, 0.68, 1.21, 33.3),
        ("resnet50", "SFP"): (74.61, 1.54, 92.06, 0.81, 2.38, 41.8),
        ("resnet50", "CP"): (None, None, 90.80, 1.40, 2.04, 50.0),
        ("resnet50", "Taylor"): (74.50, 1.68, None, None, 2.25, 44.9),
        ("resnet50", "AutoSlim"): (76.00, None, None, None, 3.00, 26.6),
        ("resnet50", "FPGM"): (75.50, 0.65, 92.63, 0.21, 2.36, 42.2),
        ("resnet50", "TAS"): (76.20, 1.26, 93.07, 0.48, 2.31, 43.5),
    }

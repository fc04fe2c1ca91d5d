"""Settings are chosen by the effective share alone: for each family, region and mesh."""

import numpy as np
import pandas as pd

from study.transport import choosing
from study.transport import experiment as transport

SMALL, LARGE = dict(width=24, samples=2, tests=64), dict(width=48, samples=4, tests=256)
TRIED = dict(
    domains=["star", "disc"],
    nodes=500,
    meshes=[500, 2000],
    steps=[list(SMALL.values()), list(LARGE.values())],
    eps={"others": [0.01, 0.003], "trained-printed-32": [0.1, 0.01]},
    rates=[0.005, 0.01],
)


def judged_by(share, asked=None):
    """A stand-in for ``replicates.run`` whose trials have the effective share ``share(config)``."""

    def run(function, configs, seeds):
        assert function is transport.trial
        if asked is not None:
            asked.extend(configs)
        rows = [
            config | {"ess": share(config), "k": 0.1, "loss": 1.0, "seed": seed} for config in configs for seed in seeds
        ]
        return pd.DataFrame(rows)

    return run


def test_each_region_and_mesh_gets_its_own_best():
    best = {("star", 500): 0.01, ("star", 2000): 0.003, ("disc", 500): 0.003, ("disc", 2000): 0.01}

    def share(c):
        slow = 0.1 * (c["rate"] == 0.01)
        large = 0.2 * (c["nodes"] == 2000 and c["width"] == 48 and c["domain"] == "star")
        return 0.99 - abs(np.log10(c["eps"] / best[c["domain"], c["nodes"]])) / 10 - slow + large

    table, chosen = choosing.choose(judged_by(share), {"a": 1.0}, 100, TRIED)
    for (domain, nodes), eps in best.items():
        size = LARGE if (domain, nodes) == ("star", 2000) else SMALL
        assert choosing.setting(chosen, "hard", domain, nodes) == {"eps": eps, "rate": 0.005, **size}
    assert choosing.setting(chosen, "exact", "star", 2000) == {"eps": 0.01, "rate": 0.005, **SMALL}
    assert choosing.setting(chosen, "hard", "star", 9999) == {"eps": 0.01, "rate": 0.005, **SMALL}
    assert {type(value) for value in chosen["hard", "star", 2000].values()} == {int, float}
    last = table[(table.choice == "ε on each mesh") & table.chosen]
    assert len(last) == 3 * 2 * 2 + 2 * 2  # three families on two meshes and two regions, two that know no mesh


def test_a_larger_step_must_be_worth_it():
    for gain, size in ((0.01, SMALL), (0.05, LARGE)):
        run = judged_by(lambda c, gain=gain: 0.9 + gain * (c["width"] == 48))
        _, chosen = choosing.choose(run, {}, 100, TRIED)
        assert {name: chosen["multilevel", "disc", 2000][name] for name in size} == size


def test_where_no_setting_is_good_all_pairs_are_tried():
    """ε = 0.003 is right for large steps alone, which one choice after the other does not find."""
    right = lambda c: c["width"] == 48 and c["eps"] == 0.003  # noqa: E731
    run = judged_by(lambda c: 0.8 if right(c) else 0.5 if c["width"] == 24 and c["eps"] == 0.01 else 0.1)
    table, chosen = choosing.choose(run, {}, 100, TRIED)
    assert choosing.setting(chosen, "hard", "star", 2000) == {"eps": 0.003, "rate": 0.005, **LARGE}
    assert (table[(table.choice == "size and ε") & table.chosen & (table.method == "trained-hard-32")].ess == 0.8).all()


def test_nothing_is_tried_where_there_is_one_option():
    asked = []
    one = TRIED | dict(
        steps=[list(SMALL.values())], eps={"others": [0.003]}, rates=[0.005], families=["trained-hard-32"]
    )
    table, chosen = choosing.choose(judged_by(lambda c: 0.5, asked), {}, 100, one)
    assert len(asked) == len(table) == 2  # one for each region
    assert set(chosen) == {(rung, domain, None) for rung in ("hard", "wendland") for domain in ("star", "disc")}

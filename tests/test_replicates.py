"""The cache and the replicate mechanism: reuse, reasons, damage, refusal."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import toy
from machinery import cache, cluster, fingerprint, replicates
from pdevae.errors import UserError


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("PDEVAE_ROOT", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(Path(toy.__file__).parent))
    monkeypatch.setenv("PDEVAE_RUN", json.dumps({"jobs": 2}))
    return tmp_path


def config(project, **changes):
    return {"log": str(project / "log"), "seconds": 0.0, "offset": 0} | changes


def started(project):
    log = project / "log"
    return len(log.read_text().split()) if log.exists() else 0


def test_results_are_computed_once_and_reused(project, capsys):
    first = replicates.run(toy.slow_square, [config(project)], range(4))
    assert first.value.tolist() == [0, 1, 4, 9]
    assert "4 to compute (not computed before)" in capsys.readouterr().out
    again = replicates.run(toy.slow_square, [config(project)], range(5))
    assert again.value.tolist() == [0, 1, 4, 9, 16]
    assert "4 reused, 1 to compute" in capsys.readouterr().out
    assert started(project) == 5


def test_configuration_is_part_of_the_key_and_of_the_table(project):
    table = replicates.run(toy.slow_square, [config(project), config(project, offset=10)], range(2))
    assert table.value.tolist() == [0, 1, 10, 11]
    assert table.offset.tolist() == [0, 0, 10, 10]
    assert table.seed.tolist() == [0, 1, 0, 1]


def test_what_measures_time_runs_alone(project):
    table = replicates.run(toy.interval, [{"seconds": 0.3}], range(4), alone=True).sort_values("begun")
    assert (table.begun.to_numpy()[1:] >= table.ended.to_numpy()[:-1]).all()


def test_fresh_computes_again(project, monkeypatch):
    replicates.run(toy.slow_square, [config(project)], range(2))
    monkeypatch.setenv("PDEVAE_RUN", json.dumps({"jobs": 2, "fresh": True}))
    replicates.run(toy.slow_square, [config(project)], range(2))
    assert started(project) == 4


def test_changed_code_is_named(project, monkeypatch):
    monkeypatch.delenv("PDEVAE_XLA", raising=False)
    real = fingerprint.fingerprint("toy")
    keys = {code: cache.Key("toy.f", {"a": 1}, 0, real | {"toy": code}) for code in ("old", "new")}
    cache.save(project, keys["old"], {"value": np.array(1.0)})
    assert cache.load(project, keys["new"]) == (None, "changed since: toy")
    assert cache.load(project, keys["old"])[1] == "reused"
    monkeypatch.setenv("PDEVAE_XLA", "0")
    otherwise = cache.Key("toy.f", {"a": 1}, 0, fingerprint.fingerprint("toy") | {"toy": "old"})
    assert cache.load(project, otherwise) == (None, "changed since: XLA")


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "swap"])
def test_a_damaged_entry_is_computed_again_and_said(project, capsys, damage):
    replicates.run(toy.slow_square, [config(project)], range(2))
    one, other = sorted((project / "build" / "cache").rglob("*.result"))
    content = bytearray(one.read_bytes())
    if damage == "truncate":
        content = content[: len(content) // 2]
    elif damage == "flip":
        content[-200] ^= 0xFF
    elif damage == "empty":
        content = b""
    else:
        content = other.read_bytes()
    one.write_bytes(bytes(content))
    capsys.readouterr()
    table = replicates.run(toy.slow_square, [config(project)], range(2))
    assert table.value.tolist() == [0, 1]
    said = capsys.readouterr().out
    assert "1 reused, 1 to compute (its file" in said
    assert started(project) == 3


def test_every_bit_flip_is_noticed(project):
    """500 random flips: none gets a result loaded."""
    key = cache.Key("toy.f", {"a": 1}, 0, {"toy": "x"})
    cache.save(project, key, {"value": np.arange(20.0)})
    path = key.path(project)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(500):
        damaged = bytearray(content)
        damaged[rng.integers(len(damaged))] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(damaged))
        assert cache.load(project, key) == (None, "its file was damaged")


def test_no_pickle_is_ever_read(project):
    key = cache.Key("toy.f", {"a": 1}, 0, {"toy": "x"})
    cache.save(project, key, {"value": np.array([{"a": 1}], dtype=object)})  # NumPy pickles such an array
    assert cache.load(project, key) == (None, "its file was damaged")


def test_arrays_become_rows(project):
    table = replicates.run(toy.arrays, [{}], [0, 1])
    assert len(table) == 6
    assert table.name.tolist() == ["a", "b", "c"] * 2
    assert table.n.tolist() == [3] * 6


@pytest.mark.parametrize("function", [toy.failing, toy.dying])
def test_a_failing_replicate_says_which(project, function):
    with pytest.raises(UserError, match=r"failed for \{\}, seed 7"):
        replicates.run(function, [{}], [7])


def test_a_worker_with_other_code_refuses():
    with pytest.raises(UserError, match="a different version of the code"):
        replicates._replicate("toy:arrays", {}, 0, "0123456789abcdef")


@pytest.mark.slow
def test_a_dead_scheduler_is_said(monkeypatch):
    monkeypatch.setenv("PDEVAE_RUN", json.dumps({"scheduler": "tcp://127.0.0.1:9"}))
    with pytest.raises(UserError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        cluster.client()


@pytest.mark.slow
def test_existing_cluster_gives_the_same_numbers(project, monkeypatch):
    from distributed import LocalCluster

    local = replicates.run(toy.arrays, [{}], range(3))
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as existing:
        settings = {"scheduler": existing.scheduler_address, "fresh": True}
        monkeypatch.setenv("PDEVAE_RUN", json.dumps(settings))
        remote = replicates.run(toy.arrays, [{}], range(3))
        cluster.client().close()
    pd.testing.assert_frame_equal(local, remote)


def test_fingerprint_follows_imports_and_ignores_comments_and_messages(tmp_path, monkeypatch):
    names = fingerprint.fingerprint("study.minipatch")
    assert {"pdevae.penalties.tapered", "pdevae.fem.mesh", "pdevae.fem.factors", "tensorflow"} <= names.keys()
    assert "study.plots" not in names
    assert "machinery.cache" not in names
    hashes = []
    monkeypatch.syspath_prepend(tmp_path)
    refuses = "x = 1\nraise OSError('{}')\n"
    for text in ('"""A."""\n' + refuses.format("no"), "# B\n" + refuses.format("no, do so"), "raise OSError\nx = 2\n"):
        (tmp_path / "scratch_module.py").write_text(text)
        fingerprint._hash_and_imports.cache_clear()
        hashes.append(fingerprint.fingerprint("scratch_module")["scratch_module"])
    assert hashes[0] == hashes[1] != hashes[2]

"""All scenarios: what each is called, what it asks, and how often it is tried in the short and in the long version."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from . import Tally, company, damage, disk, fuzz, kills, lock, malice, tables, training


class Scenario(NamedTuple):
    name: str
    says: str
    run: Callable[..., Tally]  # scratch folder, how often
    few: int
    many: int


SCENARIOS = (
    Scenario("runner_killed", "SIGKILL of the runner", kills.runner, 2, 34),
    Scenario("worker_killed", "SIGKILL of a worker", kills.worker, 1, 33),
    Scenario("scheduler_killed", "SIGKILL of a Dask scheduler outside", kills.scheduler, 1, 33),
    Scenario("told_to_stop", "SIGTERM of the runner", kills.told_to_stop, 1, 6),
    Scenario("full_build", "the disk of build/ is full", partial(disk.full, place="build"), 1, 12),
    Scenario("full_figures", "the disk of figures/ is full", partial(disk.full, place="figures"), 1, 12),
    Scenario("read_only", "figures/ is read-only, from the start or midway", disk.read_only, 1, 6),
    Scenario("cache_damaged", "cache entries truncated or with a flipped bit", damage.cache_entries, 7, 42),
    Scenario("jura_damaged", "Jura files truncated or with a flipped bit", damage.jura_files, 20, 200),
    Scenario("aquifer_damaged", "aquifer files truncated or with a flipped bit", damage.aquifer_files, 10, 100),
    Scenario("lock_damaged", "requirements.lock truncated or with a flipped bit", lock.lock_file, 20, 200),
    Scenario("lock_hashes", "requirements.lock with a wrong hash or none", lock.lock_hashes, 1, 5),
    Scenario("clock_backwards", "files are from the future and from 1970", damage.clock, 1, 6),
    Scenario("two_runs", "two runs of one project at once", company.two_runs, 1, 6),
    Scenario("other_code", "a worker with another version of the code", company.other_code, 1, 3),
    Scenario("nan_in_training", "NaN in a training step (CVI, VAE, surrogate)", training.nan, 1, 10),
    Scenario("parameters_fuzzed", "fuzzed parameters and profiles", fuzz.parameters, 200, 1000),
    Scenario("settings_senseless", "settings of 01 and 02 that make no sense", fuzz.real_notebooks, 8, 100),
    Scenario("jura_fuzzed", "fuzzed Jura tables", tables.jura_tables, 50, 200),
    Scenario("aquifer_fuzzed", "fuzzed aquifer tables", tables.aquifer_tables, 50, 200),
    Scenario("pickle_in_cache", "pickles in the cache that would run", malice.pickles, 2, 25),
    Scenario("no_unpickling", "modules without unpickling or eval", malice.no_unpickling, 1, 1),
    Scenario("download_altered", "downloads altered, cut short or missing", malice.downloads, 1, 20),
)

"""Replicates: pure functions of (configuration, seed), run in parallel, each result saved as it arrives.

    results = replicates.run(experiment, configs, seeds=range(10))

A replicate returns a dict of arrays and numbers. What is stored under the same configuration, seed and code is
reused; a run that is killed loses only what was being computed.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import is_dataclass
from itertools import product
from pkgutil import resolve_name
from typing import Any, get_type_hints

import numpy as np
import pandas as pd
from distributed import CancelledError, as_completed

from machinery import cache
from machinery.cluster import check_worker, client
from machinery.fingerprint import fingerprint
from machinery.progress import Progress
from machinery.settings import RunSettings, project_root
from pdevae.errors import UserError

Replicate = Callable[[Any, int], dict]  # of a dict, or of the dataclass that its first argument is annotated with


def run(function: Replicate, configs: Iterable[dict], seeds: Iterable[int], alone: bool = False) -> pd.DataFrame:
    """Every configuration with every seed, as one tidy table: configuration, seed, results.

    ``alone``: one after the other, for replicates that measure time.
    """
    configs = list(configs)
    for config in configs:
        _typed(function, config)  # a wrong name is refused here, not by a worker
    tasks = [
        cache.Key(f"{function.__module__}.{function.__qualname__}", dict(config), int(seed), _code(function))
        for config, seed in product(configs, seeds)
    ]
    if not tasks:
        raise UserError(f"{function.__name__}: nothing to do: ask for at least one configuration and one replicate")
    folder = project_root() / "build" / "cache"
    found: dict = {}
    misses: Counter = Counter()
    for number, key in enumerate(tasks):
        result, why = (None, "--fresh") if RunSettings.current().fresh else cache.load(folder, key)
        if result is None:
            misses[why] += 1
        else:
            found[number] = result
    _say(function, len(tasks), len(found), misses)
    missing = [number for number in range(len(tasks)) if number not in found]
    for number, result in _compute(function, tasks, missing, alone):
        cache.save(folder, tasks[number], result)
        found[number] = result
    return pd.concat([_rows(key, found[number]) for number, key in enumerate(tasks)], ignore_index=True)


def _compute(function: Replicate, tasks: list[cache.Key], missing: list[int], alone: bool):
    """Results as they arrive: (number, result)."""
    if not missing:
        return
    dask, name = client(), f"{function.__module__}:{function.__qualname__}"
    with Progress(total=len(missing), desc=function.__name__) as bar:
        try:
            for together in [[n] for n in missing] if alone else [missing]:
                futures = {
                    dask.submit(_replicate, name, key.config, key.seed, cache.digest(key.code), pure=False): n
                    for n, key in ((n, tasks[n]) for n in together)
                }
                for future in as_completed(futures):
                    if future.status == "error":
                        reason = future.exception()  # gone once cancelled
                        dask.cancel(list(futures))
                        raise _failure(function, tasks[futures[future]], reason) from reason
                    yield futures[future], future.result()
                    bar.update()
                    future.release()
        except (CancelledError, OSError, RuntimeError) as error:  # what Dask says without its scheduler
            kept, where = len(tasks) - len(missing) + bar.n, getattr(dask.scheduler, "address", "its address")
            raise UserError(
                f"the Dask scheduler at {where} is gone ({type(error).__name__}): start it again and "
                f"rerun; {kept} of {len(tasks)} replicates are kept"
            ) from error


def _failure(function: Replicate, key: cache.Key, reason: Exception) -> UserError:
    said = str(reason) if isinstance(reason, UserError) else repr(reason)
    return UserError(f"{function.__name__} failed for {key.config}, seed {key.seed}: {said}")


def _replicate(name: str, config: dict, seed: int, code: str) -> dict[str, np.ndarray]:
    """What a worker does; one whose code or circumstances differ from the asker's refuses.

    By name, so that the scheduler, which reads every task, need not import TensorFlow.
    """
    function = resolve_name(name)
    if cache.digest(_code(function)) != code:
        raise UserError("this worker has a different version of the code or its libraries: update and restart it")
    check_worker()
    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # what it warns of, the notebook's reader cannot change
    return {name: np.asarray(value) for name, value in function(_typed(function, config), seed).items()}


def _typed(function: Replicate, config: dict) -> Any:
    """The configuration as what the function takes."""
    kind: Any = get_type_hints(function).get("config", dict)
    if not is_dataclass(kind):
        return dict(config)
    try:
        return kind(**config)  # type: ignore[operator]
    except TypeError as error:
        raise UserError(f"{function.__name__}: {str(error).partition('__init__() ')[2]} in {config}") from None


def _code(function: Replicate) -> dict[str, str]:
    return fingerprint(function.__module__)


def _rows(key: cache.Key, result: dict[str, np.ndarray]) -> pd.DataFrame:
    values = {name: value.item() if value.ndim == 0 else value for name, value in result.items()}
    length = max((len(v) for v in values.values() if isinstance(v, np.ndarray)), default=1)
    table = pd.DataFrame(values, index=range(length))
    constant = {name: value for name, value in key.config.items() if np.isscalar(value) and name not in table}
    return table.assign(**constant, seed=key.seed)


def _say(function: Replicate, total: int, reused: int, misses: Counter) -> None:
    parts = [f"{reused} reused"] if reused else []
    parts += [f"{count} to compute ({why})" for why, count in misses.items()]
    print(f"{function.__name__}: {total} replicates: {', '.join(parts)}", flush=True)

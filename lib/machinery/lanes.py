"""Notebooks side by side: one computes while another starts or draws, on workers that they share."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator

from machinery.launch import execute
from machinery.notebooks import Notebook
from machinery.settings import RunSettings


@contextlib.contextmanager
def shared_cluster(jobs: int, wanted: bool) -> Iterator[str]:
    """The address of workers that all notebooks of the run share, or nothing, and each starts its own."""
    if not wanted:
        yield ""
        return
    from machinery.cluster import local_cluster

    with local_cluster(RunSettings(jobs=jobs).worker_count) as cluster:
        yield cluster.scheduler_address


def in_turn(chosen: list, lanes: int) -> list:
    """Side by side, the first two, whose pictures come soon, and then the others from the last one back: the later ones
    take longest, and none should run alone at the end.
    """
    return [*chosen[:2], *reversed(chosen[2:])] if lanes > 1 else chosen


def execute_all(
    chosen: list[Notebook],
    passed: dict[str, dict],
    settings: dict[str, RunSettings],
    lanes: int,
    show: Callable[[dict], None],
) -> list[dict]:
    """``lanes`` at a time, their rows in this order; ``show`` is called as each ends but the last."""
    waiting, done = deque(in_turn(chosen, lanes)), queue.Queue[dict | BaseException]()

    def lane() -> None:
        while waiting:
            book = waiting.popleft()
            try:
                done.put(execute(book, passed[book.name], settings[book.name], alone=lanes == 1))
            except BaseException as error:  # the run's, not the notebook's: a full disk
                done.put(error)

    for _ in range(lanes):  # a run that is told to stop does not wait for them
        threading.Thread(target=lane, daemon=True).start()
    rows: dict[str, dict] = {}
    while len(rows) < len(chosen):
        row = done.get()
        if isinstance(row, BaseException):
            raise row
        rows[row["name"]] = row
        if len(rows) < len(chosen) and row.get("artefacts"):
            show(row)
    return [rows[book.name] for book in chosen]

"""The command line behind run_all.sh."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import sys
import time
import uuid
from dataclasses import replace
from pathlib import Path

from machinery import catalogue, leftovers, manifest, notebooks
from machinery.files import check_writable
from machinery.imports import without_address_grammars
from machinery.lanes import execute_all, shared_cluster
from machinery.launch import say
from machinery.settings import RunSettings, project_root
from pdevae.errors import UserError

_REPORT_EVERY = 240.0  # seconds between reports on the way: each takes several


def main(arguments: list[str] | None = None) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # being told to stop is as good as Ctrl-C
    try:
        return _run(_parser().parse_args(arguments))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # nobody reads on: --list | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:  # a disk that is full, a folder that is not ours
        print(f"error: {error}; fix this and run again (finished replicates are kept)", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped; run again to resume (finished replicates are kept)", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="run_all.sh",
        description="Run the notebooks and regenerate every figure and table.",
        epilog="Finished replicates are kept in build/cache: repeat the command to resume a stopped run.",
    )
    parser.add_argument("--profile", default="quick", help="smoke, quick (default) or paper")
    parser.add_argument("--only", action="append", default=[], metavar="NN", help="a notebook to run; repeatable")
    parser.add_argument("-p", action="append", default=[], metavar="NAME=VALUE", help="set a notebook parameter")
    parser.add_argument("--jobs", type=int, default=0, metavar="N", help="replicates at a time (default: all cores)")
    parser.add_argument("--scheduler", default="", metavar="ADDRESS", help="an existing Dask cluster, tcp://host:port")
    parser.add_argument("--fresh", action="store_true", help="recompute what is already in the cache")
    parser.add_argument("--overwrite", action="store_true", help="write to figures/ even from a reduced profile")
    parser.add_argument("--redraw", action="store_true", help="only redraw every figure, from its CSV")
    parser.add_argument("--report", action="store_true", help="only rewrite build/report/ and docs/notebooks/")
    parser.add_argument("--list", action="store_true", help="show notebooks, parameters and profiles")
    parser.add_argument("--lab", action="store_true", help="open JupyterLab in this environment, on the explorer")
    return parser


def _run(options: argparse.Namespace) -> int:
    cores = os.cpu_count() or 1
    if not 0 <= options.jobs <= 4 * cores:
        raise UserError(f"--jobs {options.jobs}: use 1 to {4 * cores}; each replicate occupies one of {cores} cores")
    if options.list:
        return _list()
    if options.lab:
        os.chdir(project_root())
        os.execv(sys.executable, [sys.executable, "-m", "jupyterlab", "notebooks/00_explore.ipynb"])
    if options.redraw:
        return _redraw()
    if options.report:
        return _report(project_root() / "figures", {})
    chosen = notebooks.select(options.only)
    overrides = dict(map(notebooks.parse_override, options.p))
    passed = notebooks.resolve(chosen, options.profile, overrides)
    _announce(options.scheduler, options.jobs)
    figures = _figures_folder(options.profile, overrides, options.overwrite)
    check_writable(figures)
    lanes = _lanes(options, len(chosen))
    if options.profile != notebooks.PROFILES[-1] and not options.scheduler:
        os.environ.setdefault("PDEVAE_XLA", "0")  # at these sizes it compiles for longer than it saves
    with leftovers.running(project_root()), shared_cluster(options.jobs, lanes > 1) as scheduler:
        settings = {book.name: _settings(book, passed[book.name], overrides, figures, options) for book in chosen}
        if scheduler:
            settings = {name: replace(own, scheduler=scheduler) for name, own in settings.items()}
        rows = execute_all(chosen, passed, settings, lanes, lambda row: _show(row, figures))
    if figures == project_root() / "figures" and (project_root() / "README.md").exists():
        catalogue.update()
    print(_table(rows))
    print(f"figures, tables and claims: {_short(figures)}/   executed notebooks: build/notebooks/")
    failed = {row["name"]: row["error"] for row in rows if row["error"]}
    if manifest.read(figures):
        try:
            _report(figures, failed)
        except UserError as error:
            if not failed:
                raise
            print(f"no report: {error}")  # what failed first has been said
    return 1 if failed else 0


def _lanes(options: argparse.Namespace, count: int) -> int:
    """Notebooks at a time, one more than workers, so that none idles while a notebook starts or draws; one where times
    are measured."""
    shared = options.profile != notebooks.PROFILES[-1] and not options.scheduler and options.jobs != 1
    return min(count, RunSettings(jobs=options.jobs).worker_count + 1) if shared else 1


def _show(row: dict, figures: Path) -> None:
    """The pictures that a notebook made, and the report as it stands, unless that was written a short while ago."""
    pictures = [figures / f"{name}.png" for name in row["artefacts"] if name.startswith("fig_")]
    say("\n".join(f"        {_short(path)}" for path in pictures))
    page = project_root() / "build" / "report" / "index.html"
    if page.exists() and time.time() - page.stat().st_mtime < _REPORT_EVERY:
        return
    with contextlib.suppress(UserError):  # another notebook may be about to replace what it made before
        _build_report(figures, {})


def _settings(book: notebooks.Notebook, passed: dict, overrides: dict, figures: Path, options) -> RunSettings:
    mine = project_root() / "build" / f"{leftovers.OF_A_RUN}{uuid.uuid4().hex[:12]}"
    return RunSettings(
        profile=options.profile,
        overrides={name: value for name, value in overrides.items() if name in book.parameters},
        parameters={name: p.default for name, p in book.parameters.items()} | passed,
        figures=str(figures),
        jobs=options.jobs,
        scheduler=options.scheduler,
        fresh=options.fresh,
        progress_file=f"{mine}.progress",
        record_file=f"{mine}.json",
    )


def _figures_folder(profile: str, overrides: dict, overwrite: bool) -> Path:
    """figures/, unless what stands there comes from a fuller profile; then build/figures/."""
    figures = project_root() / "figures"
    present = manifest.read(figures).values()
    fullest = max((_fullness(record["profile"], record["overrides"]) for record in present), default=-1)
    if overwrite or _fullness(profile, overrides) >= fullest:
        return figures
    print(f"figures/ holds a fuller profile than {profile}: writing to build/figures/ (--overwrite to replace)")
    return project_root() / "build" / "figures"


def _fullness(profile: str, overrides: dict) -> float:
    known = profile in notebooks.PROFILES
    return (notebooks.PROFILES.index(profile) if known else -1) - (0.5 if overrides else 0)


def _announce(address: str, jobs: int) -> None:
    """Say where replicates will run; a scheduler that does not answer ends the run here."""
    if not address:
        count = RunSettings(jobs=jobs).worker_count
        print(f"replicates run on this machine, {count} at a time (for a dashboard use --scheduler)", flush=True)
        return
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, ValueError, OverflowError) as error:
        raise UserError(f"no Dask scheduler answers at {address}: start one, or leave --scheduler out") from error
    from machinery.cluster import describe

    print(describe(address), flush=True)


def _list() -> int:
    """Every parameter with its own value, which is that of the profile paper, and where another profile differs."""
    profiles = {name: notebooks.profile(name) for name in notebooks.PROFILES}
    for book in notebooks.notebooks():
        print(book.name)
        for parameter in book.parameters.values():
            set_to = {name: sections.get(book.name, {}) for name, sections in profiles.items()}
            others = ", ".join(
                f"{name}: {own[parameter.name]!r}" for name, own in set_to.items() if parameter.name in own
            )
            comment = f"    {parameter.comment}" if parameter.comment else ""
            print(f"    {parameter.name} = {parameter.default!r}" + (f" ({others})" if others else "") + comment)
    print(f"profiles: {', '.join(profiles)}")
    return 0


def _redraw() -> int:
    from machinery.artefacts import draw

    figures = project_root() / "figures"
    for path in sorted([*figures.glob("fig_*.csv"), *figures.glob("tab_*.csv")]):
        draw(path.stem, figures)
        print(f"drawn  {path.stem}")
    return 0


def _build_report(figures: Path, failed: dict[str, str]):
    without_address_grammars()
    from machinery import report

    return report.build(figures, project_root() / "build" / "report", failed)


def _report(figures: Path, failed: dict[str, str]) -> int:
    built = _build_report(figures, failed)
    if built.without:
        print(f"executed notebooks missing from the report: {', '.join(built.without)}")
    print(f"report: {_short(built.page)}")
    if figures == project_root() / "figures" and (project_root() / "docs").exists():
        from machinery import pages

        pages.write_all()
    return 0


def _table(rows: list[dict]) -> str:
    lines = [("notebook", "seconds", "artefacts", "claims")]
    for row in rows:
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in row.get("claims", {}).items())
        written = ", ".join(row.get("artefacts", {}))
        lines.append((row["name"], f"{row['seconds']:.0f}", "FAILED" if row["error"] else written, verdicts))
    widths = [max(len(line[k]) for line in lines) for k in range(4)]
    return "\n" + "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines
    )


def _short(path: Path) -> str:
    return str(path.relative_to(project_root()) if path.is_relative_to(project_root()) else path)


if __name__ == "__main__":
    sys.exit(main())

"""Files that are not ours to ship: from a folder of the project, a mirror, or the public repository; hashes checked."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pooch

from machinery.files import sha256
from pdevae.errors import UserError


@dataclass(frozen=True)
class Remote:
    """One file: its SHA-256 and its address."""

    sha256: str
    url: str


def locate(name: str, files: dict[str, Remote], root: Path) -> tuple[Path | None, str]:
    """The folder that holds ``files``, every one the known one, or None; and where they come from, or why not.

    In this order: ``data/NAME`` of the project; NAME in the mirror folder (the variable PDEVAE_MIRROR, or
    ``../shared/data`` where that exists); a download into ``data/NAME``.
    """
    own = root / "data" / name
    for folder in (own, _mirror(name, root)):
        if folder is not None and _present(folder, files):
            return folder, f"{name}: files from {folder}"
    try:
        for file, remote in files.items():
            _download(own, file, remote)
    except OSError as reason:  # a request that fails is one
        return None, f"{name}: no files in {own} or a mirror (PDEVAE_MIRROR), and no download ({_short(reason)})"
    return own, f"{name}: downloaded to {own}"


def _mirror(name: str, root: Path) -> Path | None:
    """A mirror that is named must exist; the default one may be absent."""
    named = os.environ.get("PDEVAE_MIRROR")
    if named and not (Path(named) / name).is_dir():
        raise UserError(f"PDEVAE_MIRROR={named} has no folder {name}: name the folder that holds it, or unset it")
    folder = (Path(named) if named else root.parent / "shared" / "data") / name
    return folder if folder.is_dir() else None


def _present(folder: Path, files: dict[str, Remote]) -> bool:
    """All there and all right. None there is no error; some, or another version, is."""
    missing = [file for file in files if not (folder / file).is_file()]
    if len(missing) == len(files):
        return False
    mend = f"fetch {{}} again, or remove the folder {folder}"
    if missing:
        raise UserError(f"{folder} lacks {', '.join(missing)}: " + mend.format("what is missing"))
    for file, remote in files.items():
        if sha256(folder / file) != remote.sha256:
            raise UserError(
                f"{folder / file} is not the file the results were made from (its SHA-256 differs): "
                + mend.format("it")
            )
    return True


def _download(folder: Path, file: str, remote: Remote) -> None:
    """Into place only once its hash is right."""
    quick = pooch.HTTPDownloader(timeout=20, progressbar=True)
    try:
        pooch.retrieve(remote.url, f"sha256:{remote.sha256}", file, folder, downloader=quick)
    except ValueError as reason:  # pooch's word for a hash that differs
        if isinstance(reason, OSError):  # some failed requests are both
            raise
        raise UserError(f"{remote.url} is not the file the results were made from: {_short(reason)}") from reason


def _short(reason: Exception) -> str:
    return f"{type(reason).__name__}: {str(reason)[:120]}"

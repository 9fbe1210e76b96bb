"""Download a file and check its sha256."""

import hashlib
import os
import shutil
import urllib.request
from http.client import HTTPException
from pathlib import Path

__all__ = ["check", "fetch"]


def check(path: Path, sha256: str) -> None:
    """Raise a ValueError if the file has another sha256."""
    found = _digest(path)
    if found != sha256:
        raise ValueError(
            f"{path} ({path.stat().st_size} bytes) has sha256 {found}, expected {sha256}; "
            "delete it and fetch it again"
        )


def fetch(url: str, path: Path, sha256: str) -> None:
    """Download ``url`` to ``path``, which appears only when it is complete and has that sha256."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("wb") as file, urllib.request.urlopen(url, timeout=60) as answer:
                shutil.copyfileobj(answer, file, 1 << 20)
            found = _digest(part)
            if found != sha256:
                size = part.stat().st_size
                raise ValueError(f"{url} came as {size} bytes with sha256 {found}, not {sha256}")
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
    except (OSError, HTTPException) as error:
        raise ValueError(
            f"cannot download {url} to {str(path.parent)!r}: {error}; "
            "fetch it by other means and put it there"
        ) from error


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

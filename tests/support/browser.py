"""A real browser that opens a page and gives back what is shown."""

import shutil
import subprocess
from pathlib import Path

from support.html_tree import Node, parse

NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next((path for path in map(shutil.which, NAMES) if path), None)


def browse(page: Path, profile: Path, mark: str = "") -> Node:
    """The page as it is once its script has run; an error on the console is a failure."""
    assert BROWSER is not None
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=390,900"]
    options += ["--virtual-time-budget=3000", "--enable-logging=stderr", "--dump-dom"]
    # a profile of its own: the tests may run at the same time as a browser
    command = [BROWSER, *options, f"--user-data-dir={profile}", page.as_uri() + mark]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    return parse(done.stdout)

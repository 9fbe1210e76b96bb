"""The command ``tas``: reads the arguments, calls the command, shows what came out.

Nothing here imports torch: a command's own module is imported when the command is called.
"""

import contextlib
import importlib
import io
import itertools
import json
import math
import os
import re
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from types import FrameType
from typing import Any, Protocol

__all__ = ["COMMANDS", "Command", "Outcome", "main"]


@dataclass(frozen=True, kw_only=True)
class Command:
    """One subcommand: ``function(config) -> Outcome | None``, both as "module:name".

    The config is a dataclass with a field ``json``; None is what the other processes of a job give.
    """

    summary: str
    config: str
    function: str


COMMANDS = {
    "prune": Command(
        summary="make a network smaller: train, search, distil, export, report",
        config="transformable.cli.arguments:Prune",
        function="transformable.cli.prune:prune",
    ),
    "train": Command(
        summary="train a network and test it",
        config="transformable.cli.arguments:Train",
        function="transformable.cli.train:train",
    ),
    "search": Command(
        summary="learn how wide each layer and how deep each stage should be",
        config="transformable.cli.arguments:Search",
        function="transformable.cli.search:search",
    ),
    "distill": Command(
        summary="train the network of a shape with what the unpruned one has learnt",
        config="transformable.cli.arguments:Distill",
        function="transformable.cli.distill:distill",
    ),
    "compare": Command(
        summary="which method is best for a network and a budget, all on equal terms",
        config="transformable.comparing.grid:Compare",
        function="transformable.cli.compare:compare",
    ),
    "sweep": Command(
        summary="accuracy against cost: one method, or more, over several budgets",
        config="transformable.comparing.grid:Sweep",
        function="transformable.cli.sweep:sweep",
    ),
    "evaluate": Command(
        summary="accuracy of a trained network on the test set",
        config="transformable.cli.queries:Evaluate",
        function="transformable.cli.evaluate:evaluate",
    ),
    "cost": Command(
        summary="what a network costs, layer by layer, as it is or at a shape",
        config="transformable.cli.queries:Cost",
        function="transformable.cli.cost:cost",
    ),
    "export": Command(
        summary="write a trained network for use elsewhere: safetensors, ONNX, torch.export",
        config="transformable.cli.queries:Export",
        function="transformable.cli.export:export",
    ),
    "report": Command(
        summary="explain a run of tas prune, compare or sweep in one HTML page",
        config="transformable.cli.queries:Report",
        function="transformable.cli.report:report",
    ),
}


class Outcome(Protocol):
    """What a command gives back."""

    @property
    def result(self) -> dict[str, Any]:
        """For --json."""
        ...

    def show(self) -> Any:
        """For a person: something that rich can print."""
        ...


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 if it worked, 2 for bad input, 130 if it was interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    # until a command has something to save, SIGTERM is what Ctrl-C is
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _run(arguments)
    except BrokenPipeError:
        # whoever read our output has seen enough; nothing may be written to it at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError) as error:
        if _first_process():
            print(f"tas: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        # the other processes leave with 0, or the first one would be killed while it still saves
        if not _first_process():
            return 0
        done = f", {interrupt}" if str(interrupt) else ""
        print(f"tas: interrupted{done}", file=sys.stderr)
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(arguments: list[str]) -> int:
    name = arguments[0] if arguments else "--help"
    if name in ("-h", "--help"):
        print(_help())
        return 0
    if name == "--version":
        from .. import __version__

        print(f"tas {__version__}")
        return 0
    if name not in COMMANDS:
        from ..spelling import nearest

        kind = "option" if name.startswith("-") else "command"
        raise ValueError(f"unknown {kind} {name!r}; {nearest(name, list(COMMANDS))}")
    command = COMMANDS[name]
    config = parse(name, _load(command.config), arguments[1:])
    if config is None:
        return 0
    # with --json, stdout holds the object alone, whatever a user's factory prints
    quiet = contextlib.redirect_stdout(sys.stderr) if config.json else contextlib.nullcontext()
    with quiet:
        outcome = _load(command.function)(config)
    if outcome is not None:
        _print(outcome, as_json=config.json)
    return 0


def parse(name: str, kind: Any, arguments: list[str]) -> Any:
    """The config of a command: defaults, then preset, then config file, then command line.

    None if the arguments asked for help, which is printed.

    >>> from transformable.cli.arguments import Train
    >>> parse("train", Train, ["--preset", "paper", "--epochs", "3"]).batch_size
    256
    >>> parse("train", Train, ["--epoch", "3"])
    Traceback (most recent call last):
    ValueError: unknown option '--epoch'; did you mean '--epochs'?
    """
    import tyro

    base = _base(kind, arguments)
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(kind, prog=f"tas {name}", args=arguments, default=base)
    except SystemExit as stop:
        if stop.code in (0, None):
            return None
        raise ValueError(_one_line(said.getvalue(), kind)) from None


def _base(kind: Any, arguments: list[str]) -> Any:
    """The config before the command line has its say."""
    from ..runs.config_file import read_config

    base = kind()
    file = _given(arguments, "config")
    if "preset" not in {field.name for field in fields(kind)}:
        return base if file is None else read_config(file, base)
    from ..presets import PRESETS, SEARCHES, TRANSFERS
    from ..settings import Distilling, Searching, Training

    # the preset, and the dataset that it depends on, may themselves stand in the config file
    named = base if file is None else read_config(file, base)
    preset = _given(arguments, "preset") or named.preset
    data = _given(arguments, "data") or named.data
    if preset not in PRESETS:
        raise ValueError(f"unknown preset {preset!r}; use one of {', '.join(PRESETS)}")
    known: dict[Any, Any] = {Searching: SEARCHES, Distilling: TRANSFERS, Training: PRESETS}
    presets = next((known[part] for part in known if issubclass(kind, part)), None)
    start = base if presets is None else replace(base, **vars(presets[preset](data)))
    return start if file is None else read_config(file, start)


def _given(arguments: list[str], name: str) -> str | None:
    """The value of an option on the command line; the last one counts."""
    found = None
    for token, following in itertools.zip_longest(arguments, arguments[1:]):
        (option, equals, value) = token.partition("=")
        if option == f"--{name}":
            found = value if equals else following
    return found


def _one_line(box: str, kind: Any) -> str:
    """What tyro says in a box of many lines, in one."""
    lines = [line.strip("│ ") for line in box.splitlines()]
    # the title is in the border, or, where there is only ASCII, underlined
    body = lines[1:] if lines[0].startswith("╭") else lines[2:]
    text = " ".join(itertools.takewhile(lambda line: not re.match("──|--+$|╰", line), body))
    if found := re.match(r"Unrecognized options: ([^,]+)", text):
        from ..spelling import nearest

        token = found[1]
        if not token.startswith("-"):
            return f"unexpected argument {token!r}"
        options = [field.name.replace("_", "-") for field in fields(kind) if field.name != "run"]
        hint = nearest(token.partition("=")[0].lstrip("-"), options)
        return f"unknown option {token!r}; " + hint.replace(" '", " '--")
    if found := re.match(r"Error parsing (--\S+): invalid literal for int\(\).*: (.*)", text):
        return f"{found[1]} must be a whole number, not {found[2]}"
    if found := re.match(r"Error parsing (--\S+): could not convert string to float: (.*)", text):
        return f"{found[1]} must be a number, not {found[2]}"
    return re.sub(r"^Error parsing \w+: ", "", text)


def _print(outcome: Outcome, *, as_json: bool) -> None:
    if as_json:
        # JSON has no NaN
        finite = {k: v if _finite(v) else None for k, v in outcome.result.items()}
        print(json.dumps(finite), flush=True)
        return
    from rich.console import Console

    # a file has no width of its own
    Console(width=None if sys.stdout.isatty() else 120).print(outcome.show())


def _finite(value: object) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "usage: tas COMMAND [OPTIONS]",
            "",
            "Make a convolutional network as small as you need.",
            "",
            *lines,
            "",
            "tas COMMAND --help says more; tas --version says which version this is.",
        ]
    )


def _load(path: str) -> Any:
    (module, name) = path.split(":")
    return getattr(importlib.import_module(module), name)


def _first_process() -> bool:
    """With several devices, only the first process speaks."""
    return os.environ.get("LOCAL_RANK", "0") == "0"


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())

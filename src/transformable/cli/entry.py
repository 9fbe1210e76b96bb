"""The command ``tas``: reads the arguments, calls the command, prints its result.

Nothing here imports torch: a command's own module is imported when the command is called.
"""

import contextlib
import importlib
import json
import math
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING

from ..launch import is_first_process, torchrun_processes
from .streams import keep_streams, show_warnings_in_one_line, stdout_to_stderr

if TYPE_CHECKING:
    from .outcome import Outcome

__all__ = ["COMMANDS", "main"]

DISTRIBUTED = ("prune", "train", "search", "distill")
"""The commands that several processes can work on together."""

COMMANDS = {
    "prune": "make a network smaller: train, search, distil, export, report",
    "train": "train a network and test it",
    "search": "learn how wide each layer and how deep each stage should be",
    "distill": "train the network of a shape with what the unpruned one has learnt",
    "compare": "which method is best for a network and a budget, all on equal terms",
    "sweep": "accuracy against cost: one method, or more, over several budgets",
    "reproduce": "the paper's tables and figure 4, with our figures beside the paper's",
    "status": "how far a run is, and whether its process is alive",
    "evaluate": "accuracy of a trained network on the test set",
    "cost": "what a network costs, layer by layer, as it is or at a shape",
    "latency": "how long a network takes on this machine, layer by layer: a table to search with",
    "export": "write a trained network for use elsewhere: safetensors, ONNX, torch.export",
    "report": "explain a run of tas prune, compare or sweep in one HTML page",
}
"""The commands and their summaries. Each is the function of its name in the module of its name,
``function(options, command) -> Outcome | None``: ``command`` is the command line as text, and all
processes of a job but the first return None."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 if it worked, 2 for bad input, 130 if it was interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if "LOCAL_RANK" in os.environ:
        # one of several: if another one ends, torch would print pages of its own about it
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    if argv is None:
        keep_streams()
        show_warnings_in_one_line()
    # until a command has something to save, SIGTERM does the same as Ctrl-C
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _run(arguments)
    except (ValueError, OSError, RuntimeError, MemoryError) as error:
        from .machine_faults import describe_fault

        words = describe_fault(error, *arguments[:1])
        if words is None and not isinstance(error, (ValueError, OSError)):
            raise
        if isinstance(error, (ValueError, OSError)):
            error = _in_plain_words(error)
        if "--debug" in arguments or os.environ.get("TAS_DEBUG", "0") not in ("", "0"):
            traceback.print_exception(error)
        if _speaks():
            print(f"tas: error: {words or ' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        # the other processes exit with 0, or the first one would be killed while it still saves
        if not is_first_process():
            return 0
        done = f", {interrupt}" if str(interrupt) else ""
        if _speaks():
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
    processes, _ = torchrun_processes()
    if processes > 1 and name not in DISTRIBUTED:
        raise ValueError(f"tas {name} works in one process, not in {processes}: leave out torchrun")
    from .parsing import options_of, parse

    options = parse(name, options_of(name), arguments[1:])
    if options is None:
        return 0
    # with --json, stdout holds the object alone, whatever a user's factory prints
    quiet = stdout_to_stderr() if options.json else contextlib.nullcontext()
    with quiet:
        command = getattr(importlib.import_module(f".{name}", __package__), name)
        outcome = command(options, shlex.join(["tas", *arguments]))
    if outcome is not None and is_first_process():
        _print(outcome, as_json=options.json)
    return 0


def _print(outcome: "Outcome", *, as_json: bool) -> None:
    if as_json:
        # JSON has no NaN
        print(json.dumps(_finite(outcome.result)), flush=True)
        return
    from rich.console import Console

    # a file has no width of its own
    Console(width=None if sys.stdout.isatty() else 120).print(outcome.show())


def _finite(value: object) -> object:
    """The value with None for each number in it that is not finite."""
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _in_plain_words(error: ValueError | OSError) -> ValueError | OSError:
    """The error itself or, if a name has letters that the locale cannot encode, one about that."""
    if not isinstance(error, UnicodeEncodeError):
        return error
    fix = "set PYTHONUTF8=1"
    if error.encoding.startswith("utf"):  # the name has bytes that are not text
        fix = "rename the file"
    told = ValueError(
        f"{error.object!a} has letters that {error.encoding} cannot encode; "
        f"use another name, or {fix}"
    )
    told.__cause__ = error
    return told


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = "\n".join(f"  {name:{width}}  {summary}" for name, summary in COMMANDS.items())
    return f"""usage: tas COMMAND [OPTIONS]

Make a convolutional network as small as you need.

{lines}

tas COMMAND --help lists the options. Their values come from the preset, then the config file, then
the command line. The same command on the same run folder continues where it stopped."""


def _speaks() -> bool:
    """Whether this process reports why the work ends: of several, one does."""
    # not imported here: an interruption may have left torch half imported
    processes = sys.modules.get("transformable.training.processes")
    first_to_speak = getattr(processes, "first_to_speak", is_first_process)
    return bool(first_to_speak())


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt

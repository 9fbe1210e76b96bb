"""What ``tas compare`` does."""

from pathlib import Path

from ..comparing.grid import Compare
from ..runs.run_folder import default_folder
from .contest import Compared, run_left

__all__ = ["compare"]


def compare(args: Compare) -> Compared:
    """Run the trials that are not done, and tell of all."""
    folder = Path(args.out) if args.out else default_folder(args, "compare-")
    return Compared(title=f"{args.model} on {args.data}", result=run_left(args, folder))

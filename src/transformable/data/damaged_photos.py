"""The photos of a folder that cannot be decoded: they are left out, as long as they are few."""

import warnings

__all__ = ["DamagedPhotos"]

SHARE = 0.01  # of the photos may be damaged


class DamagedPhotos:
    """Counts the damaged photos of a folder; a ValueError if they are too many."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.allowed = max(1, int(SHARE * total))
        self.found: set[str] = set()

    def add(self, messages: list[str]) -> None:
        """Count the photos in these messages; those that are known already count once."""
        for message in messages:
            if message in self.found:
                continue
            self.found.add(message)
            count = len(self.found)
            if count > self.allowed:
                raise ValueError(
                    f"{message}; {count} of {self.total} photos are damaged, at most "
                    f"{self.allowed} {'is' if self.allowed == 1 else 'are'} allowed: repair or "
                    "remove them"
                )
            if count & (count - 1) == 0:  # 1, 2, 4, 8, ...: many photos, few lines
                warnings.warn(
                    f"{message}; it is left out, {count} of {self.total} so far", stacklevel=3
                )

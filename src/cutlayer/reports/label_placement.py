"""Where to write the names of points so that they cover neither points nor one another."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_DIRECTIONS = 16
_DISTANCES = (8.0, 16.0, 28.0, 42.0, 58.0, 76.0, 96.0)


class Box(NamedTuple):
    """A rectangle in pixels."""

    left: float
    bottom: float
    right: float
    top: float

    def overlap(self, other: "Box") -> float:
        """The area that both cover."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.top, other.top) - max(self.bottom, other.bottom)
        return max(0.0, width) * max(0.0, height)

    @property
    def area(self) -> float:
        """Width times height."""
        return (self.right - self.left) * (self.top - self.bottom)


def place_labels(
    anchors: Sequence[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
    obstacles: Sequence[Box],
    frame: Box,
) -> list[Box]:
    """Put each label near its point, where it covers least.

    The labels are placed one after the other. Each tries places around its point, near ones
    first, and takes the first that is free, else the one that covers least.

    Args:
        anchors: the points, in pixels.
        sizes: width and height of each label.
        obstacles: what no label should cover.
        frame: what no label should leave.

    Returns:
        A box for each label, in the order of ``anchors``.
    """
    placed: list[Box] = []
    for anchor, size in zip(anchors, sizes, strict=True):
        best, least = None, math.inf
        for candidate in _candidates(anchor, size):
            outside = candidate.area - candidate.overlap(frame)
            # Leaving the figure is worst: such a label cannot be read at all.
            cost = 10 * outside + sum(map(candidate.overlap, (*obstacles, *placed)))
            if cost < least - 1e-6:
                best, least = candidate, cost
            if least <= 1e-6:
                break
        placed.append(best or next(_candidates(anchor, size)))
    return placed


def _candidates(anchor: tuple[float, float], size: tuple[float, float]) -> Iterator[Box]:
    """Boxes around a point: right and left first, then around the clock, then further away."""
    (x, y), (width, height) = anchor, size
    turns = sorted(range(_DIRECTIONS), key=lambda turn: abs(math.sin(_angle(turn))))
    for distance in _DISTANCES:
        for turn in turns:
            cosine, sine = math.cos(_angle(turn)), math.sin(_angle(turn))
            centre_x = x + cosine * (distance + width / 2)
            centre_y = y + sine * (distance + height / 2)
            yield Box(
                centre_x - width / 2,
                centre_y - height / 2,
                centre_x + width / 2,
                centre_y + height / 2,
            )


def _angle(turn: int) -> float:
    """The direction of one of the turns."""
    return 2 * math.pi * turn / _DIRECTIONS

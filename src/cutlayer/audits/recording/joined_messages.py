"""The messages of one batch as one release: a peer that made them with one state may join them."""

from collections.abc import Iterator, Sequence
from itertools import groupby

import torch

from cutlayer import check
from cutlayer.audits.hints import Hint, Hints
from cutlayer.transcript.folder import Transcript
from cutlayer.transcript.release import Release


class JoinedMessages:
    """Releases of whole batches, where each batch crossed in several messages.

    No weight changes between the messages of a batch, so an attack on one batch may use them all.
    A joined release bears the step of its first message that was kept.

    Args:
        transcript: of a training that cut each batch into ``messages`` messages; every release of
            it that is kept is used once.
        messages: that a batch crosses in, at least 1.

    Raises:
        ValueError: ``messages`` is below 1.
    """

    def __init__(self, transcript: Transcript, messages: int) -> None:
        check.at_least("messages", messages, 1)
        self._transcript, self._messages = transcript, messages

    def __len__(self) -> int:
        return sum(1 for _ in groupby(self._transcript.steps, self._batch))

    def __iter__(self) -> Iterator[Release]:
        for _, parts in groupby(self._transcript, lambda release: self._batch(release.step)):
            yield _joined(list(parts))

    def hints(self, hints: Hints) -> dict[int, Hint]:
        """The first hint of each batch, by the step of the joined release."""
        joined: dict[int, Hint] = {}
        for _, group in groupby(self._transcript.steps, self._batch):
            steps = list(group)
            known = [hints[step] for step in steps if step in hints]
            if known:
                joined[steps[0]] = known[0]
        return joined

    def _batch(self, step: int) -> int:
        """Which batch a message is of."""
        return step // self._messages


def _joined(parts: Sequence[Release]) -> Release:
    """The rows of several messages, one below the other; a message that came twice counts once."""
    once = list({part.step: part for part in reversed(parts)}.values())[::-1]
    if len(once) == 1:
        return once[0]
    return Release(
        once[0].step,
        once[0].epoch,
        torch.cat([part.records for part in once]),
        torch.cat([part.activation for part in once]),
        torch.cat([part.gradient for part in once]),
    )

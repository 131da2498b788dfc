"""Torn and rotten files: the run goes on from an older common state, or says what is wrong.

Whatever happens to a file, no step is answered with other bytes than the first time.
"""

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cutlayer.errors import ConfigurationError, ConnectionLostError, DataError
from tests.faults.parties import JOURNAL, PARTIES, Plan
from tests.faults.threads import Ended, play

NAMED = (DataError, ConfigurationError)


class Interrupted:
    """A run that stopped in the middle, and what it comes to if nothing happens to its files."""

    def __init__(self, plan: Plan) -> None:
        self.half = replace(plan, epochs=3)
        self.whole = plan
        first, rest = play(self.half), self._go_on(plan.folder, Path(plan.folder + "-whole"))
        assert not first.errors
        assert not rest.errors
        self.replies = {**first.replies, **rest.replies}
        self.weights = rest.weights

    def _go_on(self, kept: str, folder: Path) -> Ended:
        shutil.copytree(kept, folder)
        return play(replace(self.whole, folder=str(folder)))

    def damaged(self, path: str, folder: Path, chance: random.Random) -> str:
        """Damage a file of a copy and go on; returns how that ended, ``sound`` or an error."""
        shutil.copytree(self.half.folder, folder)
        file = folder / path
        content = bytearray(file.read_bytes())
        at = chance.randrange(len(content))
        if chance.random() < 0.5:
            del content[at:]
        else:
            content[at] ^= 1 << chance.randrange(8)
        file.write_bytes(content)
        ended = play(replace(self.whole, folder=str(folder)))
        shutil.rmtree(folder)
        return self._judged(ended, f"{path} at {at}")

    def _judged(self, ended: Ended, what: str) -> str:
        for step, reply in ended.replies.items():
            assert self.replies[step] == reply, f"{what}: step {step} got a second reply"
        if not ended.errors:
            assert ended.weights == self.weights, what
            return "went on"
        named = [error for error in ended.errors.values() if isinstance(error, NAMED)]
        for error in ended.errors.values():
            # The one whose files are sound may learn only that its peer has gone.
            assert isinstance(error, (*NAMED, ConnectionLostError)), f"{what}: {error!r}"
        assert named, f"{what}: {ended.errors}"
        return type(named[0]).__name__


def newest_checkpoint(plan: Plan, party: str) -> Path:
    return max((plan.of(party) / "checkpoints").glob("step-*"))


def tear(plan: Plan, folder: Path, seed: int, times: int) -> dict[str, int]:
    """Damage the journal or a file of a newest checkpoint so many times; counts what followed."""
    interrupted, chance = Interrupted(plan), random.Random(seed)  # noqa: S311
    half = interrupted.half
    counts: dict[str, int] = {}
    for index in range(times):
        if index % 2:
            torn = half.of("label") / JOURNAL
        else:
            party = chance.choice(PARTIES)
            torn = chance.choice(sorted(newest_checkpoint(half, party).iterdir()))
        path = str(torn.relative_to(half.folder))
        result = interrupted.damaged(path, folder / "torn", chance)
        name = f"{'journal' if index % 2 else 'checkpoint'}: {result}"
        counts[name] = counts.get(name, 0) + 1
    return counts


@pytest.fixture
def quiet(plan) -> Plan:
    """Small, and without anything that two parties in one process would share."""
    return replace(plan, dropout=0.0, protection="max_norm", checkpoint_every=2, epochs=4)


def test_torn_files_never_bring_a_second_reply(quiet, folder, seed, figure):
    counts = tear(quiet, folder, seed, 60)
    figure("torn files", f"60 offsets, {counts}, 0 second replies")
    assert counts["checkpoint: went on"] == 30  # the one before is still there
    assert counts["journal: DataError"] > 10


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_thousand_torn_files(quiet, folder, seed, figure):
    counts = tear(quiet, folder, seed, 1000)
    figure("torn files", f"1,000 offsets, {counts}, 0 second replies")


def test_the_judge_knows_a_second_reply_when_it_sees_one(quiet):
    interrupted = Interrupted(quiet)
    other = replace(interrupted.whole, folder=quiet.folder + "-other")
    shutil.copytree(interrupted.half.folder, other.folder)
    (other.of("label") / "run.key").chmod(0o600)
    (other.of("label") / "run.key").write_bytes(bytes(32))  # other noise, and no journal:
    (other.of("label") / JOURNAL).unlink()
    shutil.rmtree(other.of("label") / "checkpoints")
    shutil.rmtree(other.of("other") / "checkpoints")
    for party in ("label", "other"):  # what else would notice the other key
        for name in ("peer.order", "shared.records"):
            (other.of(party) / name).unlink(missing_ok=True)
    with pytest.raises(AssertionError, match="second reply"):
        interrupted._judged(play(other), "a run without its journal")

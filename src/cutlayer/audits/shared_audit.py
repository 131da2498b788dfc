"""The leak audit on several processes: attackers are dealt out, and each reads the messages.

What is handed to a worker is names, numbers and paths. It reads the recording itself, one chunk at
a time, so that it holds a few numbers a record and attacker and no copy of the messages.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from ctypes import Array, c_int64
from dataclasses import replace
from functools import cached_property, partial
from itertools import groupby
from multiprocessing import active_children
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, ClassVar

from cutlayer.attacks import Attack, HistoryAttack
from cutlayer.audits.attack_tally import Measurement, StepCurve
from cutlayer.audits.leak_audit import LeakAudit, OnRelease, Post, audit_leak
from cutlayer.audits.one_thread import one_thread
from cutlayer.audits.recording.recorded_training import RecordedTraining
from cutlayer.audits.scope import AnyAttack, Attacker, AuditScope
from cutlayer.audits.worker_process import begin_worker
from cutlayer.errors import CutlayerError

ReadTraining = Callable[[], RecordedTraining]
"""Gives the training in whatever process it is called; a function at the top of a module, or a
:class:`functools.partial` of one."""

_CHEAP_SECONDS = 1e-3
"""What one attacker takes for a release of 512 rows."""

_EXPENSIVE_SECONDS = 5.0
"""What an attack that trains models takes, more or less, for some releases or a whole training."""

_WORTH_SECONDS = 20.0
"""Below so much work the start of processes, some seconds each, would not pay."""

_PILES_A_WORKER = 2
"""Into so many shares the cheap attacks at a layer are cut for each worker, so that none waits
long for the last one, and the messages are not read more often than need be."""

_LOOK_SECONDS = 0.2


def worth_sharing(everybody: Sequence[Post], releases: int) -> bool:
    """Whether the audit is long enough to start processes for it."""
    return sum(_seconds(post, releases) for post in everybody) > _WORTH_SECONDS


def can_be_shared(everybody: Sequence[Post]) -> bool:
    """Whether a worker finds all attacks by their names: those of this package, that is."""
    return all(_is_own(one.attack) for post in everybody for one in post.attackers)


def shared_audit(
    read: ReadTraining,
    everybody: Sequence[Post],
    scope: AuditScope,
    releases: int,
    *,
    workers: int,
    on_release: OnRelease | None = None,
) -> LeakAudit:
    """Run every attack, on worker processes; the same result as :func:`audit_leak` in this one.

    Each attack at each layer runs as a whole in one worker. Ctrl-C, and any error, ends all of
    them.

    Args:
        read: gives each worker the training.
        everybody: who attacks where.
        scope: how much the attackers know, how often they try, and after which epochs to measure.
        releases: how many the training has.
        workers: at most so many processes.
        on_release: told how many releases are done, on average over all attacks.

    Raises:
        ValueError: as :func:`audit_leak`, from whichever worker met it first.
        DataError: a file is of no use.
        CutlayerError: a worker was killed.
    """
    shares = dealt(everybody, workers)
    context = _OwnProcesses()
    progress = context.RawArray(c_int64, len(shares))
    pool = ProcessPoolExecutor(
        min(workers, len(shares)),
        context,
        initializer=_Worker.begin,
        initargs=(read, scope, progress),
    )
    try:
        parts = [pool.submit(_attack, share, number) for number, share in enumerate(shares)]
        left: set[Future[LeakAudit]] = set(parts)
        while left:
            done, left = wait(left, timeout=_LOOK_SECONDS, return_when=FIRST_COMPLETED)
            for part in done:
                part.result()
            if on_release is not None:
                on_release(_done(shares, progress, [part.done() for part in parts], releases))
        return joined(everybody, [part.result() for part in parts])
    except BrokenProcessPool as error:
        raise CutlayerError(
            "A process of the audit ended before its work was done: it was killed, or the machine "
            "ran out of memory. Audit again with fewer workers."
        ) from error
    except BaseException:
        context.kill()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def dealt(everybody: Sequence[Post], workers: int) -> list[Post]:
    """Cut the audit into shares.

    Every expensive attack is a share of its own; the cheap ones at a layer are dealt out so that
    their shares are about equal. No attack at a layer is divided, as its attackers share what they
    keep of a training, and their median over seeds is taken.

    Args:
        everybody: who attacks where.
        workers: how many will work on it.

    Returns:
        At least one share for each layer; all together hold every attacker once.
    """
    shares: list[Post] = []
    for post in everybody:
        attacks = _by_attack(post.attackers)
        piles: list[list[Attacker]] = [[] for _ in range(_PILES_A_WORKER * workers)]
        for group in sorted(filter(_is_cheap, attacks), key=len, reverse=True):
            min(piles, key=len).extend(group)
        groups = [tuple(pile) for pile in piles if pile]
        groups += [group for group in attacks if not _is_cheap(group)]
        shares += [Post(post.layer, group) for group in groups or [()]]
    return shares


def joined(everybody: Sequence[Post], parts: Sequence[LeakAudit]) -> LeakAudit:
    """Put the parts together in the order that one process would have given them.

    Args:
        everybody: who attacked where.
        parts: the audits of all shares, in any order.
    """
    layers = [post.layer for post in everybody]
    order = {
        (one.name, post.layer): (isinstance(one.attack, HistoryAttack), place, number)
        for place, post in enumerate(everybody)
        for number, one in enumerate(post.attackers)
    }

    def place(found: Measurement | StepCurve) -> tuple[bool, int, int]:
        return order[found.attack, found.layer]

    histograms = {(h.layer, h.quantity): h for part in parts for h in part.histograms}
    return replace(
        parts[0],
        measurements=tuple(sorted((m for p in parts for m in p.measurements), key=place)),
        curves=tuple(sorted((c for p in parts for c in p.curves), key=place)),
        histograms=tuple(sorted(histograms.values(), key=lambda h: layers.index(h.layer))),
    )


class _OwnProcesses(SpawnContext):
    """Starts processes afresh, as a copy of one with torch's threads may hang, and knows them.

    The program around an audit may start others at the same time.
    """

    def __init__(self) -> None:
        self._made: list[SpawnProcess] = []

    def Process(self, *args: Any, **kwargs: Any) -> SpawnProcess:  # type: ignore[override]  # noqa: N802
        """The name by which a pool asks for a process; a class in the context below."""
        process = SpawnProcess(*args, **kwargs)
        self._made.append(process)
        return process

    def kill(self) -> None:
        """End those that run."""
        for process in set(active_children()).intersection(self._made):
            process.kill()


class _Worker:
    """What one worker process holds."""

    here: ClassVar["_Worker"]

    def __init__(self, read: ReadTraining, scope: AuditScope, progress: "Array[c_int64]") -> None:
        self._read, self.scope, self.progress = read, scope, progress

    @classmethod
    def begin(cls, read: ReadTraining, scope: AuditScope, progress: "Array[c_int64]") -> None:
        """Make this process a worker."""
        begin_worker()
        cls.here = cls(read, scope, progress)

    @cached_property
    def training(self) -> RecordedTraining:
        """Read once; an error reaches the parent with the share that asked."""
        return self._read()


def _attack(share: Post, number: int) -> LeakAudit:
    """Do one share, in a worker."""
    worker = _Worker.here

    def tell(done: int) -> None:
        worker.progress[number] = done

    with one_thread():
        return audit_leak(
            worker.training.releases,
            worker.training.truth,
            hints=worker.training.hints,
            first_layer=worker.training.first_layer,
            scope=worker.scope,
            on_release=tell,
            only=(share,),
        )


def _done(
    shares: Sequence[Post], progress: Iterable[int], ended: Sequence[bool], releases: int
) -> int:
    """How many releases are done, as a mean over shares by their work; all at the very end."""
    weights = [_seconds(share, releases) for share in shares]
    # The last step, the scores of whole trainings, comes when all releases are done.
    reached = [
        releases if end else min(done, releases - 1)
        for done, end in zip(progress, ended, strict=True)
    ]
    if all(ended):
        return releases
    return int(sum(w * r for w, r in zip(weights, reached, strict=True)) / sum(weights))


def _seconds(post: Post, releases: int) -> float:
    """About how long a post takes; more than 0."""
    return (
        sum(
            len(group) * releases * _CHEAP_SECONDS if _is_cheap(group) else _EXPENSIVE_SECONDS
            for group in _by_attack(post.attackers)
        )
        or _CHEAP_SECONDS
    )


def _by_attack(attackers: Sequence[Attacker]) -> list[tuple[Attacker, ...]]:
    """The attackers of each attack."""
    return [tuple(group) for _, group in groupby(attackers, key=lambda one: one.name)]


def _is_cheap(group: Sequence[Attacker]) -> bool:
    """Whether these attackers, of one attack, train no model."""
    return group[0].attack.cost == "cheap"


def _is_own(attack: AnyAttack) -> bool:
    """Whether all that an attack consists of stands in a module of this package."""
    parts = [attack.function if isinstance(attack, Attack) else attack.begin]
    if isinstance(parts[0], partial):
        inner = [part for part in parts[0].args if isinstance(part, Attack)]
        parts = [parts[0].func, *(part.function for part in inner)]
    return all(part.__module__.startswith("cutlayer.") for part in parts)

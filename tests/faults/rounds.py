"""Playing a plan to its end while its parties are killed, and what must be true afterwards."""

import os
import random
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.faults.parties import DONE, JOURNAL, PARTIES, Plan, outcome, start
from tests.faults.sabotage import PLACES

LONGEST_SECONDS = 240.0


@dataclass
class Toll:
    """What was done to the parties, and how they came back."""

    kills: int = 0
    places: dict[str, int] = field(default_factory=dict)
    """Kills by where they fell."""
    recoveries: list[float] = field(default_factory=list)
    """Seconds from a kill to the next step that had never been answered, or to the end."""

    def fell(self, place: str) -> None:
        self.kills += 1
        self.places[place] = self.places.get(place, 0) + 1


class Round:
    """One run of both parties; whoever dies is started again."""

    def __init__(self, plan: Plan, sabotage: Mapping[str, str] | None = None) -> None:
        self.plan = plan
        self._header: int | None = None
        self.processes: dict[str, BaseProcess] = {}
        for party in PARTIES:
            self.start(party, (sabotage or {}).get(party, ""))

    def start(self, party: str, sabotage: str = "") -> None:
        self.processes[party] = start(self.plan, party, sabotage)

    @property
    def answered(self) -> int:
        """Bytes of the journal: they grow with each step that is answered for the first time."""
        journal = self.plan.of("label") / JOURNAL
        return journal.stat().st_size if journal.exists() else 0

    @property
    def steps(self) -> int:
        """Steps that were answered so far."""
        return max(0, self.answered - self._header_bytes()) // 80

    def _header_bytes(self) -> int:
        """Length of the journal's first line."""
        if self._header is None and self.answered:
            with (self.plan.of("label") / JOURNAL).open("rb") as journal:
                self._header = len(journal.readline())
        return self._header or 0

    def is_done(self, party: str) -> bool:
        return (self.plan.of(party) / DONE).exists()

    @property
    def over(self) -> bool:
        return all(self.is_done(party) for party in PARTIES)

    def kill(self, party: str) -> bool:
        """SIGKILL; whether the party was still alive, and needed.

        A party that is killed when the other has finished would wait for it in vain: then an
        operator starts both again, as docs/operation.md says.
        """
        process = self.processes[party]
        if not process.is_alive() or any(self.is_done(one) for one in PARTIES):
            return False
        process.kill()
        process.join()
        return True

    def require_no_error(self, party: str) -> None:
        for name in ("crash.txt", "error.txt"):
            told = self.plan.of(party) / name
            assert not told.exists(), told.read_text()

    def wait_for(self, condition: Callable[[], bool], seconds: float = LONGEST_SECONDS) -> float:
        """Seconds until something is true."""
        began = time.monotonic()
        while not condition():
            for party, process in self.processes.items():
                if not process.is_alive() and not self.is_done(party):
                    self.require_no_error(party)
            assert time.monotonic() < began + seconds, f"not within {seconds} s"
            time.sleep(0.005)
        return time.monotonic() - began

    def finish(self, seconds: float = LONGEST_SECONDS) -> dict[str, dict[str, str]]:
        """Wait for both parties' ends, and say what they came to."""
        self.wait_for(lambda: self.over, seconds)
        for process in self.processes.values():
            process.join(30)
        return outcome(self.plan)

    def end(self) -> None:
        """Leave no process behind."""
        for process in self.processes.values():
            process.kill()
            process.join()


def resident_mib(process: int) -> float:
    """Memory of a process."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def prepared(plan: Plan, folder: Path) -> Plan:
    """A run of its own with the keys, and so the order and noise, of another."""
    for party in PARTIES:
        (folder / party).mkdir(parents=True)
        shutil.copy(plan.of(party) / "run.key", folder / party / "run.key")
    return replace(plan, folder=str(folder))


class Killing:
    """Kills at random moments and inside chosen functions, half of them while still recovering."""

    def __init__(
        self, plan: Plan, chance: random.Random, toll: Toll, most: int, longest_pause: float
    ) -> None:
        self._chance, self._toll, self._most = chance, toll, toll.kills + most
        self._longest_pause = longest_pause
        self._aimed: dict[str, str] = {}
        self._again: set[str] = set()
        self._fallen: tuple[float, int] | None = None
        self._round = Round(plan, {party: self._aim(party) for party in PARTIES})
        self._due = self._next_moment()

    def until_over(self) -> dict[str, dict[str, str]]:
        """Let the parties come to their end."""
        deadline = time.monotonic() + LONGEST_SECONDS
        try:
            while not self._round.over:
                assert time.monotonic() < deadline, "the parties did not come to an end"
                self._look_for_recovery()
                self._strike()
                for party in PARTIES:
                    self._raise_again(party)
                    self._fetch_back_peer(party)
                time.sleep(0.002)
            self._look_for_recovery()
            return outcome(self._round.plan)
        finally:
            self._round.end()

    def _strike(self) -> None:
        """Kill one or both, or let the last kill be recovered from first."""
        if self._toll.kills >= self._most or time.monotonic() < self._due:
            return
        self._due = self._next_moment()
        if self._fallen is None or self._chance.random() < 0.5:
            for party in self._chance.choice([PARTIES[:1], PARTIES[1:], PARTIES]):
                aimed = party in self._aimed  # it dies by itself
                if not aimed and not self._round.is_done(party) and self._round.kill(party):
                    self._fell("any moment")

    def _raise_again(self, party: str) -> None:
        """Start a party that has died."""
        process = self._round.processes[party]
        if process.is_alive() or self._round.is_done(party):
            return
        process.join()
        self._round.require_no_error(party)
        if place := self._aimed.pop(party, None):
            self._fell(place)
        self._round.start(party, self._aim(party))
        self._again.add(party)

    def _fetch_back_peer(self, party: str) -> None:
        """Start the peer of a party that died after the peer had all it needed: it waits for it."""
        (peer,) = set(PARTIES) - {party}
        left = self._round.is_done(peer) and not self._round.processes[peer].is_alive()
        if left and party in self._again and not self._round.is_done(party):
            self._again.remove(party)
            self._round.start(peer)

    def _aim(self, party: str) -> str:
        """Let every other start end at some line of some place."""
        if self._toll.kills >= self._most or self._chance.random() < 0.5:
            return ""
        place = self._chance.choice([name for name in PLACES if party in PLACES[name].parties])
        self._aimed[party] = place
        return f"die:{place}:{self._chance.randrange(PLACES[place].lines)}"

    def _fell(self, place: str) -> None:
        """Note a kill."""
        self._toll.fell(place)
        self._fallen = (time.monotonic(), self._round.answered)

    def _look_for_recovery(self) -> None:
        """Note when the run has got further than before the last kill."""
        if self._fallen and (self._round.over or self._round.answered > self._fallen[1]):
            self._toll.recoveries.append(time.monotonic() - self._fallen[0])
            self._fallen = None

    def _next_moment(self) -> float:
        """When to kill next."""
        return time.monotonic() + self._chance.uniform(0, self._longest_pause)


def survive(plan: Plan, folder: Path, kills: int, seed: int) -> Toll:
    """Kill runs until so many kills were done; each run must end as the undisturbed one did."""
    began = time.monotonic()
    expected = Round(plan).finish()
    undisturbed = time.monotonic() - began
    reference = (plan.of("label") / JOURNAL).read_bytes()
    toll, chance, runs = Toll(), random.Random(seed), 0  # noqa: S311
    while toll.kills < kills:
        runs += 1
        again = prepared(plan, folder / f"run-{runs}")
        killing = Killing(again, chance, toll, min(kills - toll.kills, 25), undisturbed / 2)
        ended = killing.until_over()
        journal = (again.of("label") / JOURNAL).read_bytes()
        assert ended == expected
        assert journal == reference  # every step once, same request, same reply
        shutil.rmtree(again.folder)
    return toll

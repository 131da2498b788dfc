"""Visits in the drop-ins against plans: counted by hand, however records and calls are named."""

import copy
import math
import pickle
import threading
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from cutlayer import Isotropic, Marvell, Residual, protect, protected_loss
from cutlayer.errors import ProtectionError
from cutlayer.protections.visit_count import VisitCount


def release(protection, rows=8, **call):
    """One call with its backward pass."""
    logit = torch.zeros(rows, requires_grad=True)
    protected_loss(logit, torch.arange(rows) % 2, protection, **call).backward()
    return logit.grad


def planned(releases):
    return Residual(max_leak_auc=0.6, releases=releases)


@dataclass(frozen=True)
class Planned(Isotropic):
    """A protection of the gradient that states a plan, as one of one's own may."""

    @property
    def planned_releases(self):
        return 2


def test_calls_beyond_the_plan_are_refused_and_release_nothing():
    protection = planned(2)
    release(protection)
    release(protection)
    logit = torch.zeros(8, requires_grad=True)
    loss = protected_loss(logit, torch.arange(8) % 2, protection)
    for _ in range(2):
        with pytest.raises(ProtectionError, match=r"planned for 2 .* release 3 of every record"):
            loss.backward(retain_graph=True)
        assert logit.grad is None
    assert protection.visits.most == 2


def test_protect_counts_alike():
    activation = torch.randn(8, 3, requires_grad=True)
    labels, protection = torch.arange(8) % 2, Planned(t=1.0)
    for _ in range(2):
        protect(activation, labels, protection).sum().backward()
    with pytest.raises(ProtectionError, match="planned for 2"):
        protect(activation, labels, protection).sum().backward()
    for _ in range(5):  # no plan, no end
        protect(activation, labels, Isotropic(t=1.0)).sum().backward()


def test_records_are_counted_each_by_itself():
    protection = planned(2)
    for _ in range(2):  # two epochs of three batches
        for begin in (0, 8, 16):
            release(protection, records=torch.arange(begin, begin + 8))
    assert protection.visits.most == 2
    with pytest.raises(ProtectionError, match="release 3 of record 5"):
        release(protection, rows=1, records=[5])
    release(protection, rows=2, records=[24, 25])  # nobody has seen these
    with pytest.raises(ProtectionError, match="release 3 of record 'a'"):
        release(protection, rows=3, records=["a", "a", "a"])  # thrice in one batch
    assert protection.visits.most == 2


def test_sampling_with_replacement_is_counted_as_it_falls():
    # By loops: the first call in which some record would have its sixth visit.
    source = np.random.default_rng(0)
    draws = [source.integers(0, 40, size=8) for _ in range(40)]
    seen = np.zeros(40, dtype=int)
    for expected, rows in enumerate(draws):  # noqa: B007
        np.add.at(seen, rows, 1)
        if seen.max() > 5:
            break
    protection = planned(5)
    for call, rows in enumerate(draws):
        if call == expected:
            with pytest.raises(ProtectionError, match="planned for 5"):
                release(protection, records=rows)
            break
        release(protection, records=rows)


@pytest.mark.parametrize("batches", [1, 3, 7])
def test_a_pass_of_known_length_is_one_visit(batches):
    protection = planned(2)
    for call in range(2 * batches):
        assert protection.visits.most == math.ceil(call / batches)
        release(protection, batches_per_epoch=batches)
    with pytest.raises(ProtectionError, match="release 3"):
        release(protection, batches_per_epoch=batches)


def test_calls_with_and_without_ids_add_up():
    protection = planned(3)
    release(protection, rows=2, records=["a", "b"])
    release(protection)  # of a and b too, for all we know
    release(protection, rows=1, records=["a"])
    release(protection, rows=1, records=["b"])
    with pytest.raises(ProtectionError, match="release 4 of record 'a'"):
        release(protection, rows=1, records=["a"])
    release(protection, rows=1, records=["c"])
    with pytest.raises(ProtectionError, match="release 4 of every record"):
        release(protection)


def test_a_plan_may_be_passed_on_purpose_and_the_count_goes_on():
    protection = planned(2)
    for _ in range(20):
        release(protection, beyond_plan="allow")
    assert protection.visits.most == 20
    assert protection.guarantee(2).leak_auc == pytest.approx(0.6)
    # Phi(sqrt(E / 2) / sigma), with E ten times as large: sqrt(10) times the quantile of .6.
    expected = torch.special.ndtr(math.sqrt(10) * torch.special.ndtri(torch.tensor(0.6))).item()
    assert protection.guarantee(protection.visits.most).leak_auc == pytest.approx(expected, 1e-5)


def test_only_what_is_released_counts():
    protection = planned(1)
    labels = torch.arange(8) % 2
    logit = torch.zeros(8, requires_grad=True)
    with torch.no_grad():
        protected_loss(logit, labels, protection)
    protected_loss(logit.detach(), labels, protection)
    protected_loss(logit, labels, protection)  # never led back
    protected_loss(logit[:0], labels[:0], protection).backward()
    assert protection.visits.most == 0
    loss = protected_loss(logit, labels, protection)
    loss.backward(retain_graph=True)
    loss.backward()  # the same noise again
    assert protection.visits.most == 1
    gradient = Planned(t=1.0)
    scaler = torch.amp.GradScaler("cpu")
    activation = torch.ones(8, 2, requires_grad=True)
    (protect(activation, labels, gradient, scaler=scaler) * torch.inf).sum().backward()
    assert gradient.visits.most == 0  # no step: infinite in all rows


@pytest.mark.parametrize(
    "duplicate",
    [
        copy.copy,
        copy.deepcopy,
        lambda p: copy.deepcopy({"a": [p]})["a"][0],
        lambda p: pickle.loads(pickle.dumps(p)),  # noqa: S301
    ],
    ids=["copy", "deepcopy", "nested", "pickle"],
)
@pytest.mark.parametrize("used", [0, 1])
def test_a_copy_does_not_begin_again(duplicate, used):
    protection = planned(2)
    for _ in range(used):
        release(protection)
    copied = duplicate(protection)
    assert copied == protection
    for _ in range(2 - used):
        release(copied)
    with pytest.raises(ProtectionError, match="planned for 2"):
        release(copied)
    release(replace(protection))  # a new protection, made on purpose


def test_copies_count_together():
    protection = planned(3)
    for _ in range(3):
        release(copy.deepcopy(protection))
    with pytest.raises(ProtectionError, match="planned for 3"):
        release(copy.deepcopy(protection))


def test_a_pickle_keeps_the_ids():
    protection = planned(2)
    release(protection, rows=2, records=["a", "b"])
    loaded = pickle.loads(pickle.dumps(protection))  # noqa: S301
    release(loaded, rows=2, records=["b", "c"])
    with pytest.raises(ProtectionError, match="record 'b'"):
        release(loaded, rows=2, records=["b", "c"])


def test_threads_lose_no_visit():
    count = VisitCount()
    ids = tuple(range(50))

    def work():
        for _ in range(200):
            count.add(ids, 1, None)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count.most == 8 * 200


def test_the_count_is_no_part_of_equality_and_hash():
    used, fresh = planned(2), planned(2)
    release(used)
    assert used == fresh
    assert hash(used) == hash(fresh)
    assert repr(used) == repr(fresh)


@pytest.mark.parametrize(
    "ids",
    [
        np.arange(8),
        range(8),
        list("abcdefgh"),
        torch.arange(8, dtype=torch.int32),
        np.array([f"r{i}" for i in range(8)]),
        [np.int64(i) for i in range(8)],
    ],
    ids=["numpy", "range", "texts", "int32", "numpy_texts", "numpy_numbers"],
)
def test_ids_of_many_kinds(ids):
    protection = planned(2)
    for _ in range(2):
        release(protection, records=copy.copy(ids))
    with pytest.raises(ProtectionError, match="release 3 of record"):
        release(protection, records=ids)


def test_a_number_is_one_record_whatever_holds_it():
    protection = planned(3)
    for one in (torch.tensor([7]), np.array([7], dtype=np.int16), [7]):
        release(protection, rows=1, records=one)
    with pytest.raises(ProtectionError, match="release 4 of record 7"):
        release(protection, rows=1, records=(7,))


def test_a_number_and_its_text_are_one_record():
    protection = planned(4)
    for one in ([7], ["7"], np.array(["7"]), [np.str_("7")]):
        release(protection, rows=1, records=one)
    for again in ("7", 7):
        with pytest.raises(ProtectionError, match="release 5 of record 7"):
            release(protection, rows=1, records=[again])
    with pytest.raises(ProtectionError, match="release 5 of record -12"):
        release(protection, rows=5, records=["-12", -12, "-12", -12, "-12"])
    # Other texts stay what they are, as in the files of the parties.
    others = ["007", "7.0", "+7", "-0", "7_0", "\u0667", "7\n", "0x7", "", "9" * 5000]
    for _ in range(4):
        release(protection, rows=len(others), records=others)
    with pytest.raises(ProtectionError, match="record '007'"):
        release(protection, rows=1, records=["007"])
    release(protection, rows=4, records=[0, "0", -7, 9])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"records": torch.arange(7)}, "one id for each of the 8 rows"),
        ({"records": torch.zeros(8, 1, dtype=torch.long)}, "whole numbers or texts"),
        ({"records": torch.zeros(8)}, "whole numbers or texts"),
        ({"records": torch.tensor(3)}, "one id for each"),
        ({"records": "abcdefgh"}, "one id for each"),
        ({"records": [torch.tensor(i) for i in range(8)]}, "whole numbers or texts"),
        ({"records": [None] * 8}, "whole numbers or texts"),
        ({"records": [True] * 8}, "whole numbers or texts"),
        ({"batches_per_epoch": 0}, "batches_per_epoch"),
        ({"batches_per_epoch": 2.5}, "batches_per_epoch"),
        ({"records": range(8), "batches_per_epoch": 3}, "not both"),
        ({"beyond_plan": "ignore"}, "refuse or allow"),
    ],
)
def test_calls_that_cannot_be_counted_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        release(planned(2), **call)
    activation = torch.zeros(8, 2, requires_grad=True)
    with pytest.raises(ValueError, match=message):
        protect(activation, torch.arange(8) % 2, Marvell(s=1.0), **call)

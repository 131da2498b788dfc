import pytest

from cutlayer.parties.cadence import departure


@pytest.mark.parametrize(
    ("taken_up", "now", "leaves"),
    [
        (100.2, 100.3, 101.0),  # the first multiple of .5 from 100.7 on
        (100.2, 100.65, 101.0),
        (100.2, 101.1, 101.5),  # the work did not fit
        (100.5, 100.5, 101.0),
        (100.51, 100.6, 101.5),
    ],
)
def test_times_by_hand(taken_up, now, leaves):
    assert departure(taken_up, now, 0.5) == leaves


def replies(arrivals, works, updates, cadence):
    """When a party that does one thing after the other replies."""
    free, left = 0.0, []
    for arrival, work, update in zip(arrivals, works, updates, strict=True):
        taken_up = max(arrival, free)
        left.append(departure(taken_up, taken_up + work, cadence))
        free = left[-1] + update
    return left


ARRIVALS = {
    "one after the other": [0.3, 3.1, 5.9, 8.99],
    "all at once": [0.3, 0.3, 0.3, 0.3],
    "just before and after a reply": [0.3, 1.999, 4.001, 4.4],
    "during an update": [0.3, 2.2, 4.9, 4.95],
}


@pytest.mark.parametrize("arrivals", ARRIVALS.values(), ids=ARRIVALS)
def test_s2_a_departure_depends_on_no_work_that_fits(arrivals):
    """Short and long work on replies and between them, in every order."""
    seen = {
        tuple(replies(arrivals, [a, b, a, b], [c, d, d, c], cadence=1.0))
        for a in (0.01, 0.4, 0.99)
        for b in (0.01, 0.4, 0.99)
        for c in (0.01, 0.4, 0.99)
        for d in (0.01, 0.4, 0.99)
    }
    assert len(seen) == 1


def test_work_that_does_not_fit_is_seen():
    """The control."""
    short = replies([0.3, 0.3], [0.1, 0.1], [0.1, 0.1], cadence=1.0)
    assert short != replies([0.3, 0.3], [0.1, 2.9], [0.1, 0.1], cadence=1.0)
    assert short != replies([0.3, 0.3], [0.1, 0.1], [1.9, 0.1], cadence=1.0)

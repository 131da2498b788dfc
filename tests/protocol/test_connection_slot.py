import pytest

from cutlayer.errors import DeadlineError
from cutlayer.protocol.transport import Clock
from cutlayer.protocol.transports.connection_slot import ConnectionSlot


class Visitor:
    def __init__(self):
        self.ended = ""

    def discard(self):
        self.ended = "discarded"

    def break_off(self, reason):
        self.ended = reason


def test_whoever_comes_after_the_close_has_to_leave():
    reception, early, late = ConnectionSlot(), Visitor(), Visitor()
    reception.arrive(early)
    assert reception.meet(Clock(5, "a visitor")) is early
    reception.close()
    reception.arrive(late)
    assert (early.ended, late.ended) == ("discarded", "discarded")
    with pytest.raises(DeadlineError):
        reception.meet(Clock(0.01, "a visitor"))

"""Both parties of a training in one process: for simulations, and for audits with both files."""

from concurrent.futures import ThreadPoolExecutor

from cutlayer.errors import ConnectionLostError
from cutlayer.parties.label_party import LabelParty
from cutlayer.parties.non_label_party import BottomHalf, NonLabelParty
from cutlayer.parties.top_half import TopHalf
from cutlayer.protocol import Transport, in_memory_pair


def run_in_one_process(
    label_party: LabelParty, non_label_party: NonLabelParty
) -> tuple[TopHalf, BottomHalf]:
    """Run two parties against each other, joined by memory: one here, the other in a thread.

    Nothing is kept apart, so no label is protected from whoever runs this.

    Args:
        label_party: runs in the calling thread; its observers are called there.
        non_label_party: runs in a thread that has ended when this returns or raises.

    Returns:
        What each party has trained.

    Raises:
        CutlayerError: a party failed. Where it was the non-label party, its own error is raised,
            not the lost connection that the label party saw of it.
    """
    here, there = in_memory_pair()
    with ThreadPoolExecutor(1, thread_name_prefix="non-label party") as thread:
        playing = thread.submit(_play, non_label_party, there)
        try:
            return label_party.run(here), playing.result()
        except ConnectionLostError:
            playing.result()  # its own error, if it has one, is the cause
            raise
        finally:
            here.close()


def _play(party: NonLabelParty, transport: Transport) -> BottomHalf:
    """The non-label party's side; closes its end whatever happens."""
    try:
        return party.run(transport)
    finally:
        transport.close()

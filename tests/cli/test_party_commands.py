from io import StringIO

from cutlayer.cli.console import screen
from cutlayer.cli.party_commands import _announce
from cutlayer.runs.configuration import LabelConfiguration


def test_an_ipv6_address_is_shown_whole():
    configuration = LabelConfiguration(
        run="r",
        file="f.csv",
        id="id",
        label="y",
        protection="no_noise",
        address="[fd00::1]:7700",
    )
    shown, console = StringIO(), screen()
    console.file = shown
    _announce(configuration, console)(7701)
    assert shown.getvalue() == "Listening on [fd00::1]:7701 for the non-label party.\n"

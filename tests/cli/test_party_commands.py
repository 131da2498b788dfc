from io import StringIO

from rich.console import Console

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
    shown = StringIO()
    _announce(configuration, Console(file=shown, width=200))(7701)
    assert shown.getvalue() == "Listening on [fd00::1]:7701 for the non-label party.\n"

"""The doctor's page fits a terminal: all can be read, and what to do stands beneath the finding."""

import pytest
from rich.console import Console

from cutlayer.cli.doctor_command import table_of
from cutlayer.operation.checkup import ok, warning

PATH = "/srv/organisations/first/" + 9 * "long-name/" + "table.csv"
CHECKS = (
    ok("own certificate", "valid, fingerprint " + " ".join(["0123"] * 16)),
    warning("address", f"{PATH} is not there", "Mend the path, at both parties."),
)


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_everything_can_be_read(width):
    console = Console(width=width, record=True, file=None, quiet=False)
    with console.capture() as capture:
        console.print(table_of(CHECKS))
    lines = capture.get().splitlines()
    assert max(map(len, lines)) <= width
    shown = "".join("".join(lines).split())
    for check in CHECKS:
        for words in (check.verdict.value, check.subject):
            assert words.replace(" ", "") in shown
    # Between the first two columns and the edge only the text itself stands.
    third = "".join("".join(line[26:] for line in lines).split())
    assert PATH in third
    assert "0123" * 16 in third
    assert "Todo:Mendthepath,atbothparties." in third
    assert "…" not in shown

"""Options that commands have in common, as the command line sees them."""

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from cutlayer.cli.option_groups import OptionGroup, spread


@dataclass(frozen=True)
class Size(OptionGroup):
    width: Annotated[int, typer.Option(help="How wide.")] = 3
    height: Annotated[int | None, typer.Option("--tall", help="How tall.")] = None


def command(told):
    app = typer.Typer()

    @app.command()
    @spread
    def draw(
        *, name: Annotated[str, typer.Argument()], dark: bool = False, size: Size, last: int = 0
    ) -> None:
        """Draw it."""
        told.append((name, dark, size, last))

    return app


def test_the_command_gets_its_groups_and_everything_else():
    told = []
    typed = ["box", "--tall", "5", "--last", "7", "--dark"]
    assert CliRunner().invoke(command(told), typed).exit_code == 0
    assert CliRunner().invoke(command(told), ["line"]).exit_code == 0
    assert told == [("box", True, Size(3, 5), 7), ("line", False, Size(), 0)]


def test_options_of_a_group_stand_in_the_help_where_the_group_stands():
    shown = CliRunner().invoke(command([]), ["--help"], env={"COLUMNS": "120"}).output
    places = [shown.index(part) for part in ("Draw it.", "--dark", "--width", "--tall", "--last")]
    assert places == sorted(places)
    assert "How wide. [default: 3]" in shown


def test_an_option_that_is_named_twice_is_refused():
    def twice(*, width: int = 1, size: Size) -> None: ...

    with pytest.raises(ValueError, match="width"):
        spread(twice)

"""Vertical data: one set of records whose columns lie at two parties."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from cutlayer.data.party_table import LABEL_PARTY, NON_LABEL_PARTY, PartyName, PartyTable
from cutlayer.errors import ConfigurationError


@dataclass(frozen=True, eq=False)
class VerticalData:
    """Both halves of a data set, for a simulation in one process.

    Raises:
        ConfigurationError: a table belongs to the other party.
    """

    name: str
    non_label_party: PartyTable
    label_party: PartyTable
    description: str
    """One or two sentences: what the records are, what is positive, who holds what."""
    bayes_auc: float | None = None
    """The test AUC that no model can beat in expectation; ``None`` where nobody knows it."""

    def __post_init__(self) -> None:
        held = (self.non_label_party.party, self.label_party.party)
        if held != (NON_LABEL_PARTY, LABEL_PARTY):
            raise ConfigurationError(
                f"data set {self.name!r}: give the non-label party's table and then the label "
                f"party's, got the tables of the {held[0]} and the {held[1]}."
            )


class DataSet(ABC):
    """A data set that cutlayer knows by name. Its fields are its options.

    A process of one party calls :meth:`party_table` for its own half and never holds a column of
    the other's. Only a simulation calls :meth:`load`.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    """One or two sentences: what the records are, what is positive, who holds what."""

    @abstractmethod
    def non_label_party_table(self) -> PartyTable:
        """The features of the non-label party. No label and no column of the other is kept."""

    @abstractmethod
    def label_party_table(self) -> PartyTable:
        """The labels, and the label party's own features."""

    @property
    def bayes_auc(self) -> float | None:
        """The test AUC that no model can beat in expectation; ``None`` where nobody knows it."""
        return None

    def party_table(self, party: PartyName) -> PartyTable:
        """One party's half.

        Raises:
            ConfigurationError: there is no such party.
        """
        if party == NON_LABEL_PARTY:
            return self.non_label_party_table()
        if party == LABEL_PARTY:
            return self.label_party_table()
        raise ConfigurationError(
            f"No party is called {party!r}. Known: {LABEL_PARTY}, {NON_LABEL_PARTY}."
        )

    def load(self) -> VerticalData:
        """Both halves."""
        return VerticalData(
            name=self.name,
            non_label_party=self.non_label_party_table(),
            label_party=self.label_party_table(),
            description=self.description,
            bayes_auc=self.bayes_auc,
        )

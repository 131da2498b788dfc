"""A checkup: what was looked at, what was found, and what to do about it."""

from dataclasses import dataclass
from enum import Enum


class Verdict(Enum):
    """How a check came out."""

    OK = "ok"
    WARNING = "warning"
    """The run works, but slower, or for a short time only, or with something to know."""
    FAULT = "fault"
    """The run would not start."""


@dataclass(frozen=True)
class Check:
    """One line of a checkup."""

    verdict: Verdict
    subject: str
    """What was looked at, in a word or two."""
    found: str
    fix: str = ""
    """What to do; empty where nothing is to be done."""


def ok(subject: str, found: str) -> Check:
    """A check that came out well."""
    return Check(Verdict.OK, subject, found)


def warning(subject: str, found: str, fix: str) -> Check:
    """Something that an operator should know."""
    return Check(Verdict.WARNING, subject, found, fix)


def fault(subject: str, found: str, fix: str = "") -> Check:
    """Something that keeps the run from starting; an error's message holds its own fix."""
    return Check(Verdict.FAULT, subject, found, fix)

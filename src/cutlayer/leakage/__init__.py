"""Leakage: the measures of a leak, and the bounds on it."""

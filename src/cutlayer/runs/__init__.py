"""Runs: one party's training or prediction, from its own configuration and its own file."""

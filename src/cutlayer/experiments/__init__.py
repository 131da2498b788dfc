"""Experiments: comparisons of protections, each training kept in a folder of its own."""

"""Bundled data sets, each with its columns at two parties."""

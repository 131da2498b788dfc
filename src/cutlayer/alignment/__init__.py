"""Alignment: which records both parties hold, by digests of ids or by private matching."""

"""Findings: what was measured and promised, as one validated document."""

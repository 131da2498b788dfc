"""Live audits: what is looked at while a training runs."""

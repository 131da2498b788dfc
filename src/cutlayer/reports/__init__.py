"""Reports of a findings document: a table on the terminal, figures, and one HTML page."""

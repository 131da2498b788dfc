"""Recording: what the label party keeps of a training for a later audit."""

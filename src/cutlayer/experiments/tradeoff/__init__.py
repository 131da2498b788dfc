"""Trade-off sweeps: what each protection costs in prediction, and what it hides of the labels.

A sweep trains protections x strengths x seeds on one data set, in simulation, attacks every
recorded message, and draws utility against leak as Li et al. (2022) do.
"""

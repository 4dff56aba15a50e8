"""Many runs: those of a study, on one machine or on a cluster."""

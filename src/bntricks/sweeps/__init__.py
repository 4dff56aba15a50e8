"""Many runs, such as those of a study, on one machine or on a cluster."""

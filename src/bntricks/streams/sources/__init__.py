"""Where images come from, one data set a file."""

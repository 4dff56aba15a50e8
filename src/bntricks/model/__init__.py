"""Models in use: made or adopted, taught class by class, saved in a file, exported."""

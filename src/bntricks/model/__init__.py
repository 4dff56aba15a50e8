"""A model in use: made or adopted, taught class by class, kept in a file, handed to others."""

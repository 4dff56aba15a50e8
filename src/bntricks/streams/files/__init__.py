"""How bytes become arrays: downloads, archives, decoded images and their cache."""

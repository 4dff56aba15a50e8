"""Charts of what runs have reached, each with the rows it draws and what it shows in words."""

"""Notebooks: storage, runs, origins, attacks, the commands and the routes."""

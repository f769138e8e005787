"""A run checked by code of its own: nothing here imports what it verifies."""

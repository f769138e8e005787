"""The regularisation path: from C_min to C_max, a certified model at every C."""

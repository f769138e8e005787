"""Data as Python has them: arrays, frames and Dask collections become data sets; predictions of Dask ones stay lazy."""

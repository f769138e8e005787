"""The names of the formats, for whoever asks which there are and reads none."""

FORMATS = ("auto", "svmlight", "parquet", "npz", "csv")

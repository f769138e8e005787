"""What a run is used for: predicting, exporting, screening."""

"""One module per format, each with its `FORMAT`: a new file here is a new format, nothing else changes."""

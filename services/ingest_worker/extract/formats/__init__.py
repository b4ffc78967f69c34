"""One module per format, each with its `FORMAT`. A new module here registers a new format by itself."""

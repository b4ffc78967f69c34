"""`make bench-peers`: Sluice beside other programs that load documents, with the same texts and the same weights."""

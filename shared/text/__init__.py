"""The analysis of text: words, stems and stop words, as searches, answers and BM25 compare them. Pure."""

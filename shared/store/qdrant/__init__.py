"""Adapter: the store on a Qdrant server or cluster, over gRPC where that is open, else REST."""

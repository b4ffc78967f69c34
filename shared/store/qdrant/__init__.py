"""Adapter: the store on a Qdrant server or cluster, over REST."""

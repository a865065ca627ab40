"""Draft files and their retrieval. The n-gram index, the FAISS index and the store come with the draft cache."""

"""Draft files and their retrieval."""

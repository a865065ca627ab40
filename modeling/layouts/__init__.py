"""Layouts: draft nets as others publish them, read by their own config.json and tensor names."""

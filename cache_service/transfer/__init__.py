"""Draft files as a whole: what a directory holds, and how it gets elsewhere or goes."""

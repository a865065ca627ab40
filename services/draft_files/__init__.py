"""Draft files as a drafter reaches them, in its process or behind a cache service. One seam: `protos.draft_files`."""

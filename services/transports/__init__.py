"""Transports: how an engine reaches a drafter. One seam, `protos.interfaces.AsyncDrafter`."""

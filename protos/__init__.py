"""Contracts of paradraft: messages, interfaces, codec and the gRPC frame. A leaf: imports no torch and no sibling."""

"""The maths that target and drafters share: loading, packed forward, KV slots, sampling."""

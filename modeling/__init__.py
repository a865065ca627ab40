"""The maths that target and drafters share: loading, packed forward, KV slots, sampling."""

import os

# Before torch is loaded: idle OpenMP threads must sleep. Spinning ones take a core from every other process of a node,
# and with fewer cores than threads a product was measured to take a thousand times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

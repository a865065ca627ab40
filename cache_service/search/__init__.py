"""Which stored prefixes are like one that is asked for."""

"""A classifier behind an HTTP port; `linsep serve` starts it."""

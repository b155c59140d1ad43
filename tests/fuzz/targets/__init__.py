"""One module for each place where bytes come in; docs/fuzz.md lists what stands behind each name."""

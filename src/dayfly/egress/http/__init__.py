"""HTTP in the gateway: requests of a sandbox are read, judged, rebuilt from what was judged, and sent on."""

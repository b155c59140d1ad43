"""The gateway: a process of its own that judges, resolves, dials and relays for sandboxes. It knows none of them."""

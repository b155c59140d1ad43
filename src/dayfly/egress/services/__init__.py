"""What the gateway answers itself: requests of host rules, objects, packages. Each is a ``Service`` of ``egress.http.messages``."""

"""gVisor as a boundary. See ``boundary.GvisorBoundary``; ``oci`` for what is inside, ``enforcement`` for the limits."""

from dayfly.boundaries.gvisor.boundary import GvisorBoundary

__all__ = ["GvisorBoundary"]

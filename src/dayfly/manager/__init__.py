"""Many lives: sandboxes from policies, warm spares for templates, and the end of them all when the manager closes."""

from dayfly.manager.manager import ImageLease, ImageSource, Manager, embedded
from dayfly.manager.templates import Template

__all__ = ["ImageLease", "ImageSource", "Manager", "Template", "embedded"]

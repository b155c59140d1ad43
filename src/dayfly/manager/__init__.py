"""Many lives: sandboxes from policies, warm spares for templates, tenants' shares, and the end of them all."""

from dayfly.manager.admission import Admission, Allowance, Capacity, TenantUsage
from dayfly.manager.image_source import ImageLease, ImageSource
from dayfly.manager.manager import Manager, embedded
from dayfly.manager.paused import Paused, Records
from dayfly.manager.registry import Registration
from dayfly.manager.shelf import Shelf
from dayfly.manager.tally import Tally
from dayfly.manager.templates import Template
from dayfly.manager.tenants import Tenants

__all__ = [
    "Admission",
    "Allowance",
    "Capacity",
    "ImageLease",
    "ImageSource",
    "Manager",
    "Paused",
    "Records",
    "Registration",
    "Shelf",
    "Tally",
    "Template",
    "TenantUsage",
    "Tenants",
    "embedded",
]

"""Where a sandbox may connect to: a list of rules, each for named destinations. Pure values, which policies are made of."""

from __future__ import annotations

from dayfly.network.advice import Caution, lint
from dayfly.network.base import BaseRule, Place, starred
from dayfly.network.copies import Input, Output, refuse_overlapping
from dayfly.network.environment import environment_for
from dayfly.network.inject import Inject, secret_name, unredactable
from dayfly.network.learn import LEARN_PORTS, Beginning, beginning
from dayfly.network.listing import MOST_RULES, AnyRule, Network, RuleList, parse_network
from dayfly.network.objects import Objects, ObjectsRule
from dayfly.network.packages import PACKAGES_HOST, PackageKind, Packages, PackagesRule
from dayfly.network.ranges import PRIVATE_RANGES, private_range, within
from dayfly.network.rule import MOST_PORTS, Protocol, Rule, host_pattern
from dayfly.network.suggestion import Asked, suggestion

__all__ = [
    "LEARN_PORTS",
    "MOST_PORTS",
    "MOST_RULES",
    "PACKAGES_HOST",
    "PRIVATE_RANGES",
    "AnyRule",
    "Asked",
    "BaseRule",
    "Beginning",
    "Caution",
    "Inject",
    "Input",
    "Network",
    "Objects",
    "ObjectsRule",
    "Output",
    "PackageKind",
    "Packages",
    "PackagesRule",
    "Place",
    "Protocol",
    "Rule",
    "RuleList",
    "beginning",
    "environment_for",
    "host_pattern",
    "lint",
    "parse_network",
    "private_range",
    "refuse_overlapping",
    "secret_name",
    "starred",
    "suggestion",
    "unredactable",
    "within",
]

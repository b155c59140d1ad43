"""Names: DNS is a way out. And the services that hand out credentials of machines."""

from __future__ import annotations

from functools import partial

from dayfly.prove.probe import Probe, Property, Severity

__all__ = ["PROBES"]

_dns = partial(Probe, property=Property.DNS, severity=Severity.CRITICAL)
_metadata = partial(Probe, property=Property.METADATA, severity=Severity.CRITICAL)

_RESOLVERS = [["127.0.0.53", 53], ["127.0.0.11", 53], ["169.254.169.254", 53], ["10.0.0.2", 53], ["10.96.0.10", 53],
              ["172.17.0.1", 53], ["192.168.0.1", 53], ["192.0.2.53", 53], ["2001:db8::53", 53]]  # fmt: skip

METADATA = {
    "the usual one": ("usual", [["169.254.169.254", 80], ["169.254.169.254", 443], ["169.254.169.254", 8080]]),
    "that of containers": ("containers", [["169.254.170.2", 80], ["169.254.170.23", 80]]),
    "other clouds'": (
        "clouds",
        [
            ["100.100.100.200", 80],
            ["100.96.0.96", 80],
            ["100.80.80.80", 80],
            ["168.63.129.16", 80],
            ["192.0.0.192", 80],
        ],
    ),
    "over IPv6": ("v6", [["fd00:ec2::254", 80], ["fd20:ce::254", 80]]),
}

PROBES = (
    _dns("dns.library", "Resolve an external name", attempt="network.resolved", arguments={"names": ["{nonce}.invalid", "{nonce}.example.com"]},
         question=1, source="BT, OSH1169, MSB675"),
    _dns("dns.here", "Ask whoever is said to know names", attempt="network.queried",
         arguments={"servers": [["127.0.0.1", 53]], "name": "{nonce}.invalid"}, source="BT, DUST"),
    _dns("dns.others", "Ask other name servers", attempt="network.queried", arguments={"servers": _RESOLVERS, "name": "{nonce}.invalid"},
         source="BT, K8S", seconds=15),
    _dns("dns.hosts", "Ask this machine's own name servers", attempt="network.queried",
         arguments={"servers": "{host_resolvers}", "name": "{nonce}.invalid"}, source="DUST", seconds=15),
    _dns("dns.tcp", "Ask name servers over TCP and TLS", attempt="network.asked_over_tcp",
         arguments={"servers": [*_RESOLVERS, ["192.0.2.53", 853], ["10.0.0.2", 853]]}, source="MSB585", seconds=15),
    _dns("dns.multicast", "Ask the neighbours (mDNS, LLMNR, NBNS)", attempt="network.udp",
         arguments={"places": [["224.0.0.251", 5353], ["224.0.0.252", 5355], ["255.255.255.255", 137], ["ff02::fb", 5353]], "token": "{token}"},
         source="MSB585"),
    _dns("dns.reverse", "Ask for names of addresses", attempt="network.reversed_name", arguments={"addresses": ["10.0.0.1", "192.168.1.1", "192.0.2.1"]},
         source="CDK"),
    _dns("dns.files", "Read this machine's names in resolv.conf and hosts", attempt="network.told_resolvers",
         arguments={"paths": ["/etc/resolv.conf", "/etc/hosts"]}, severity=Severity.MEDIUM,
         source="CDK"),
    *(_metadata(f"metadata.address.{short}", f"Reach the metadata service: {title}", attempt="network.many_tcp",
                arguments={"places": places, "token": "{token}"}, question=2, source="SON, E2B3625, CDK")
      for title, (short, places) in METADATA.items()),
    _metadata("metadata.names", "Resolve names of metadata services", attempt="network.resolved",
              arguments={"names": ["metadata.google.internal", "metadata", "instance-data", "metadata.tencentyun.com",
                                   "kubernetes.default.svc"]}, question=2, source="CDK"),
    _metadata("metadata.udp", "Ask the metadata service's resolver", attempt="network.udp",
              arguments={"places": [["169.254.169.254", 53], ["169.254.169.253", 53], ["fd00:ec2::253", 53]], "token": "{token}"}, question=2,
              source="BT"),
    _metadata("metadata.variables", "Have variables that lead to credentials", attempt="network.environment_pointing",
              arguments={"names": ["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_WEB_IDENTITY_TOKEN_FILE",
                                   "AWS_EC2_METADATA_SERVICE_ENDPOINT", "IDENTITY_ENDPOINT", "IDENTITY_HEADER", "MSI_ENDPOINT", "MSI_SECRET",
                                   "KUBERNETES_SERVICE_HOST", "GCE_METADATA_HOST", "GOOGLE_APPLICATION_CREDENTIALS", "ECS_CONTAINER_METADATA_URI"]},
              source="SON, CDK"),
)  # fmt: skip

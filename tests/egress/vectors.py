"""Spellings of hosts and addresses that a gate must not be fooled by, for every door that takes them.

Doors are the rules themselves, HTTP's absolute form and CONNECT, SOCKS5, HTTP/2, DNS inside and the ClientHello. ``ALLOWED``
on port 443 is what a rule allows; ``WILD`` is one with a star.
"""

from __future__ import annotations

ALLOWED = "allowed.example"
WILD = "*.wild.example"

SAME = (
    "allowed.example",
    "ALLOWED.EXAMPLE",
    "aLLoWeD.eXample",
    "allowed.example.",
    "ALLOWED.example.",
    "allowed。example",  # ideographic full stop
    "allowed．example",  # full-width
    "allowed｡example",  # half-width
    "allowed.example。",
    "ａｌｌｏｗｅｄ.example",
    "ＡＬＬＯＷＥＤ．ＥＸＡＭＰＬＥ",
    "ⓐllowed.example",
    "𝐚llowed.example",
    "al\u00adlowed.example",  # soft hyphen
    "allowed\u2060.example",  # word joiner
    "allowed.example\ufe0f",  # variation selector
)
"""``ALLOWED`` in UTS #46: what is judged, resolved and dialled is ``ALLOWED``, so they may pass."""

SPELT = {
    "bücher.example": "xn--bcher-kva.example",
    "BÜCHER.Example": "xn--bcher-kva.example",
    "bu\u0308cher.example": "xn--bcher-kva.example",
    "XN--BCHER-KVA.example": "xn--bcher-kva.example",
    "straße.example": "xn--strae-oqa.example",  # not strasse: that would be transitional
    "STRASSE.example": "strasse.example",
    "ſ.example": "s.example",
    "\u212a.example": "k.example",  # Kelvin
    "日本語。example": "xn--wgv71a119e.example",
    "क्\u200dष.example": "xn--11b2ezcw70k.example",  # a joiner where it has a meaning
    "r3---sn-4g5e.example": "r3---sn-4g5e.example",  # real ones look so
    "localhost": "localhost",
    "LOCALHOST.": "localhost",
    "db.local": "db.local",
    "a.0x1f.example": "a.0x1f.example",
    "1.2.3.4.example": "1.2.3.4.example",
    "3com": "3com",
}
"""Other names, and their one spelling."""

OTHERS = (
    "evilallowed.example",
    "evil-allowed.example",
    "allowed.example.evil.invalid",
    "ALLOWED.EXAMPLE.evil.invalid.",
    "allowed.example.evil",
    "allowed-example.evil.invalid",
    "allowed.examplee",
    "allowed.exampl",
    "llowed.example",
    "allowedexample",
    "www.allowed.example",
    "a.www.allowed.example",
    "example",
    "aIlowed.example",  # a capital i
    "a1lowed.example",
    "al-lowed.example",
    "\u0430llowed.example",  # Cyrillic
    "allow\u0435d.example",
    "\u0251llowed.example",  # Latin alpha
    "allöwed.example",
    "xn--llowed-2fg.example",
)
"""Names that look like ``ALLOWED``, or hold it, and are somebody else's."""

UNDER_WILD = (
    "a.wild.example",
    "A.WILD.EXAMPLE.",
    "xn--bcher-kva.wild.example",
    "bücher。wild.example",
    "a-b.wild.example",
)
NOT_UNDER_WILD = (
    "wild.example",
    "a.b.wild.example",
    "awild.example",
    "a.wild.example.evil.invalid",
    "a.wild.exampl",
    "a.wildxexample",
)

ADDRESSES = (
    "127.0.0.1",
    "127.0.0.1.",
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0X7F000001",
    "0x7f.1",
    "0x7f.0x0.0x0.0x1",
    "0177.0.0.1",
    "017700000001",
    "0177.0x0.0.1",
    "000127.0.0.1",
    "0",
    "0x",
    "0.0.0.0",
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "0xA9.0xFE.0xA9.0xFE",
    "0251.0376.0251.0376",
    "025177524776",
    "169.254.43518",
    "169.16689662",
    "0xa9.254.0251.254",
    "256.256.256.256",
    "4294967296",
    "99999999999999999999",
    "1.2.3.4.5",
    "allowed.example.1",
    "allowed.example.0x7f",
    "１２７.０.０.１",
    "127。0。0。1",
    "①②⑦.⓪.⓪.①",
    "127.0.0.\u00ad1",
    "０x7f000001",
    "::",
    "::1",
    "[::1]",
    "[::1]:443",
    "[::]",
    "0:0:0:0:0:0:0:1",
    "::ffff:127.0.0.1",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[::ffff:169.254.169.254]",
    "64:ff9b::7f00:1",
    "[64:ff9b:1::a9fe:a9fe]",
    "2002:7f00:1::1",
    "2001:0:4136:e378:8000:63bf:80ff:fffe",
    "fd00:ec2::254",
    "fe80::1%eth0",
    "[fe80::1%25eth0]",
    "[fe80::1%lo]",
    "[v1.fe80::a]",
    "[127.0.0.1]",
    "[allowed.example]",
)
"""Addresses, and what a resolver or a URL parser somewhere takes for one."""

_LABEL = "a" * 63
LONGEST = ".".join([_LABEL, _LABEL, _LABEL, "a" * 61])  # 253

MALFORMED = (
    "",
    ".",
    "..",
    "。",
    ".allowed.example",
    "allowed..example",
    "allowed.example..",
    "allowed.example.。",
    "allowed．．example",
    "\u00ad.example",  # nothing is left of the label
    "\u00ad",
    " allowed.example",
    "allowed.example ",
    "allowed .example",
    "\tallowed.example",
    "allowed.example\u00a0",
    "allowed.example\u3000",
    "allowed.example\0",
    "allowed.example\0.evil.invalid",
    "evil.invalid\0allowed.example",
    "allowed.example\r\nHost: evil.invalid",
    "allowed.example\r",
    "allowed.example\n",
    "allowed.example\x7f",
    "allowed.example\u0085",
    "allowed.example\u2028",
    "user@allowed.example",
    "user:secret@allowed.example",
    "allowed.example@evil.invalid",
    "allowed.example:443@evil.invalid:443",
    "evil.invalid#allowed.example",
    "evil.invalid#@allowed.example",
    "evil.invalid?allowed.example",
    "evil.invalid\\@allowed.example",
    "evil.invalid\\allowed.example",
    "evil.invalid/allowed.example",
    "evil.invalid;allowed.example",
    "evil.invalid,allowed.example",
    "evil.invalid&allowed.example",
    "allowed.example/",
    "//allowed.example",
    "https://allowed.example/",
    "allowed.example:443",
    "allowed.example:0443",
    "allowed.example: 443",
    "allowed.example:443:443",
    "allowed.example:",
    ":443",
    "allowed.example：443",
    "allowed.example＠evil.invalid",
    "evil.invalid／allowed.example",
    "evil.invalid\u2100allowed.example",  # maps to a/c
    "evil.invalid\u2044allowed.example",
    "%61llowed.example",
    "allowed%2eexample",
    "allowed.example%00",
    "allowed.example%",
    "allowed.example％00",
    "-allowed.example",
    "allowed-.example",
    "allowed.-example",
    "allowed.example-",
    "all_owed.example",
    "allowed!.example",
    "allowed'.example",
    'allowed".example',
    "allowed+.example",
    "allowed~.example",
    "*.allowed.example",
    "*",
    "＊.allowed.example",
    "a" * 64 + ".example",
    LONGEST + "a",
    "a" + LONGEST,
    "a." * 127 + "aa",
    "ü" * 60 + ".example",  # 63 and more as an A-label
    "x" * 100_000,
    "ü" * 100_000,
    "xn--.example",
    "xn---.example",
    "xn--a.example",
    "xn--allowed-.example",  # punycode of what needs none
    "xn---bbk.example",  # another punycode of an A-label
    "xn--99999999999.example",
    "xn--bücher.example",
    "ｘn--.example",
    "☃.example",  # in UTS #46, not in IDNA 2008
    "xn--n3h.example",
    "💩.example",
    "allo\u200dwed.example",  # joiners where they have no meaning
    "allo\u200cwed.example",
    "allowed.\u200b.example",  # a zero width space is nothing, and so is the label
    "\u0301a.example",
    "a\u202eb.example",
    "\u05d0a.example",  # both directions
    "a\ud800.example",
    "\udcff.example",
    "\U000e0001.example",
    "\uffff.example",
)
"""No host names at all."""

PORTS_REFUSED = (0, -1, 1, 22, 80, 442, 444, 4430, 8443, 65535, 65536, 2**31, 10**30)
"""Where ``ALLOWED`` is allowed on 443 only."""

BELOW_THE_FLOOR = (
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.170",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::2",
    "::7f00:1",
    "::8.8.8.8",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "::ffff:0:8.8.8.8",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b::a00:1",
    "64:ff9b:1::a00:1",
    "64:ff9b:1:a00:0:100::",  # 10.0.0.1 behind 48 bits
    "64:ff9b:1:a:0:1::",  # behind 56
    "64:ff9b:1:0:a:0:100:0",  # behind 64
    "64:ff9b:2::808:808",
    "100::1",
    "100:0:0:1::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:30::1",
    "2001:1ff:ffff::1",
    "2001:db8::1",
    "2002:7f00:1::1",
    "2002:808:808::1",
    "3fff::1",
    "3fff:fff:ffff::1",
    "4000::1",
    "5f00::1",
    "1fff::1",
    "fc00::1",
    "fd00::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fe80::1",
    "fe80::a9fe:a9fe",
    "fe80::1%eth0",
    "2606:4700::1111%1",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
)
"""Addresses that nobody is connected to."""

METADATA = (
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "100.100.100.200",
    "100.80.80.80",
    "100.96.0.96",
    "168.63.129.16",
    "192.0.0.192",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd00:ec2::253",
    "fd00:c1::a9fe:a9fe",
    "fd20:ce::254",
    "fd00:42::42",
)
"""What clouds tell their machines, credentials among it: some of it lies in ranges that a rule can lift."""

ABOVE_THE_FLOOR = (
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "168.63.129.15",
    "169.253.255.255",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "192.0.3.0",
    "192.167.255.255",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2000::1",
    "2001:200::1",
    "2001:4860:4860::8888",
    "2606:4700:4700::1111",
    "2a00:1450::1",
    "2003::1",
    "3ffe::1",
    "64:ff9b::808:808",
    "64:ff9b:1::808:808",
    "64:ff9b:1:fffe::808:808",
)
"""Public ones, most of them just outside of a range that is not."""

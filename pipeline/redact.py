"""Addresses as they may be shown and stored: without what lets others in.

A URL may carry a user's name and password (``https://user:password@host``) or a signature in its query
(``?X-Amz-Signature=...``, a SAS token). Messages end up in logs, and manifests, run.json and checksum files are read by
others: so every address goes through ``redacted`` on its way to a message or a file. What follows ``?`` is left out as
a whole, as nobody knows the names that all services use. Only what opens the address sees it as it was given.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import PurePosixPath
from urllib.parse import parse_qsl, urlsplit

HIDDEN = "***"
_CHAINED = r"::[A-Za-z][A-Za-z0-9+.-]*:(?:/|:)"  # the next address of zip://a::https://host/b.zip
# With one slash it is what a Path makes of an address.
_ADDRESS = re.compile(rf"([A-Za-z][A-Za-z0-9+.-]*)(://?)((?:(?!{_CHAINED})\S)*)")
_AFTER = re.compile(r"[\s:,;.!)\]}'\"]*$")  # what a sentence puts behind an address
_AFTER_HOST = re.compile(r"[/?#]")
_WEB = ("http", "https")
_WITHOUT_PORTS = ("s3", "s3a", "gs", "gcs")  # a bucket has none
# What the signed addresses of S3, Google, CloudFront, OSS and Azure (SAS) add to an address.
_SIGNING = re.compile(
    r"x-(amz|goog|oss|ms)-.+|signature|sig|expires|policy|key-pair-id|(aws|oss)accesskeyid|googleaccessid|.*token"
    r"|s[tepvrs]|spr|srt|sip|sdd|ske|skt|sks|skv|skoid|sktid|saoid|suoid|scid",
    re.IGNORECASE,
)


def redacted(text: str) -> str:
    """Return a text, or an address, in which no address has credentials; one without any is returned as it is."""
    return _ADDRESS.sub(_without_secrets, text) if ":/" in text else text


def identity(url: str) -> str:
    """Return what tells one file's address from another's and may be stored: the same whoever signed it, and when.

    What its query says besides the signature is there as a hash.
    """
    try:
        settings = parse_qsl(urlsplit(url).query, keep_blank_values=True)
    except ValueError:  # too many of them, or brackets that hold no IPv6 address
        settings = [("", url)]
    told = sorted(pair for pair in settings if not _SIGNING.fullmatch(pair[0]))
    digest = hashlib.sha256(repr(told).encode()).hexdigest()[:16]
    return f"{redacted(url)} {digest}" if told else redacted(url)


def last_name(path: str) -> str:
    """Return the name of the file that a path or an address ends with."""
    return PurePosixPath(redacted(path)).name.removesuffix(f"?{HIDDEN}")


def _without_secrets(found: re.Match[str]) -> str:
    scheme, slashes, rest = found[1], found[2], _without_user(found[1].lower(), found[3])
    place, mark, query = rest.partition("?")
    if mark and not (scheme.lower() in _WEB or "=" in query):  # the ? of a pattern
        place, mark, query = rest, "", ""
    place, fragment = _cut(place, "#")
    place, parameters = _cut(place, ";")
    if not (query or fragment or parameters):
        return f"{scheme}{slashes}{place}{mark}"
    return f"{scheme}{slashes}{place}?{HIDDEN}{_AFTER.findall(rest)[0]}"


def _cut(place: str, mark: str) -> tuple[str, bool]:
    """Return what stands before a mark that something like a setting follows, and whether there was one."""
    first, found, more = place.partition(mark)
    return (first, True) if found and "=" in more else (place, False)


def _without_user(scheme: str, rest: str) -> str:
    """Hide who is let in, though not a name alone (hdfs://user@host).

    A password may hold a slash or a question mark, and what is before that looks like a host and its port.
    """
    host = _AFTER_HOST.split(rest, maxsplit=1)[0]
    port = host.rpartition(":")[2]
    if "@" in host:
        user, _, name = host.rpartition("@")
        alone = ":" not in user and scheme not in _WEB
        return rest if alone else f"{HIDDEN}@{name}{rest[len(host) :]}"
    has_port = port.isdecimal() and scheme not in _WITHOUT_PORTS
    if ":" in host and not host.startswith("[") and not has_port and "@" in rest:
        return f"{HIDDEN}@{rest.rpartition('@')[2]}"
    return rest

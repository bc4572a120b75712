import hashlib
import json
import re
from urllib.parse import parse_qs

NOT_COUNTED = re.compile(
    r"^(host|connection|upgrade|http2-settings|expect|transfer-encoding|content-length|forwarded|x-forwarded-.*|x-auth-.*|x-request-id|via)$"
)
HEADERS = [
    ("Content-Type", "text/plain; charset=utf-8"),
    ("X-A", "b"),
    ("Cache-Control", "no-cache, private"),
    ("Set-Cookie", "a=1"),
    ("Set-Cookie", "b=2"),
]


def answer_to(method, target, headers, body):
    """The same answer as answer.mjs gives: status, whether it is chunked, and its bytes."""
    query = parse_qs(target.partition("?")[2], keep_blank_values=True)
    lines = sorted(f"{name.lower()}: {value}" for name, value in headers if not NOT_COUNTED.match(name.lower()))
    seen = {"method": method, "target": target, "lines": lines, "hash": hashlib.sha256(body).hexdigest(), "bytes": len(body)}
    text = json.dumps(seen) + "x" * int(query.get("size", ["0"])[0])
    return int(query.get("status", ["200"])[0]), "chunked" in query, text.encode()

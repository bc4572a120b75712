"""Who sends a request, as the gate in front of this service states it."""
import json
import os
import threading
import time
import urllib.request
from typing import NamedTuple

import jwt

ISSUER = os.environ["STATEMENT_ISSUER"]  # PUBLIC_URL of the gate
AUDIENCE = os.environ["STATEMENT_AUDIENCE"]  # gate.upstream
KEYS = os.environ["STATEMENT_KEYS"]  # http://GATE/.well-known/holdfast-jwks.json

FRESH_SECONDS = 300
# Anybody can name an unknown key: it has the list read again, but not more often than this.
PAUSE_SECONDS = 5


class Caller(NamedTuple):
    """Two issuers may have the same subject for different people, so only both together say who it is."""

    issuer: str
    subject: str


class KeyList:
    """The keys of the gate, by their names."""

    def __init__(self):
        self.keys = {}
        self.read_at = float("-inf")
        self.lock = threading.Lock()

    def find(self, kid):
        with self.lock:
            age = time.monotonic() - self.read_at
            if age > FRESH_SECONDS or (kid not in self.keys and age > PAUSE_SECONDS):
                self.read_at = time.monotonic()
                with urllib.request.urlopen(KEYS, timeout=5) as answer:
                    self.keys = {key["kid"]: jwt.PyJWK(key).key for key in json.load(answer)["keys"]}
            if kid not in self.keys:
                raise jwt.InvalidTokenError("The gate has no such key")
            return self.keys[kid]


key_list = KeyList()


def read_caller(statement, method, path):
    """
    :param statement: the header X-Auth-Statement
    :param method: that the application will act on
    :param path: as it was received, with its escapes and without the query
    :raises jwt.InvalidTokenError: if the statement is not good, or is about another request
    """
    key = key_list.find(jwt.get_unverified_header(statement).get("kid"))
    claims = jwt.decode(
        statement, key, algorithms=["ES256"], issuer=ISSUER, audience=AUDIENCE,
        leeway=5, options={"require": ["exp", "iss", "aud", "sub_id"]},
    )
    if (claims.get("method"), claims.get("path")) != (method, path):
        raise jwt.InvalidTokenError("It is about another request")
    return Caller(claims["sub_id"]["iss"], claims["sub_id"]["sub"])

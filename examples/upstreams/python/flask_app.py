# Install: pip install flask gunicorn "pyjwt[crypto]"
# Start: gunicorn --bind 127.0.0.1:3000 flask_app:app
# Start: flask --app flask_app run --port 3000
import jwt
from flask import Flask, abort, g, request

from statement import read_caller

app = Flask(__name__)


@app.before_request
def check_statement():
    # request.path is decoded. gunicorn and Flask's own server have RAW_URI, uWSGI and mod_wsgi REQUEST_URI.
    target = request.environ.get("RAW_URI") or request.environ["REQUEST_URI"]
    try:
        g.caller = read_caller(request.headers.get("X-Auth-Statement", ""), request.method, target.split("?", 1)[0])
    except jwt.InvalidTokenError as error:
        app.logger.warning("statement refused: %s", error)
        abort(401)


@app.route("/orders/<name>", methods=["GET", "POST"])
def order(name):
    return {**g.caller._asdict(), "method": request.method, "order": name}

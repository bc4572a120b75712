from flask import Flask, Response, request

from answer import HEADERS, answer_to

app = Flask(__name__)
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


@app.route("/", defaults={"path": ""}, methods=METHODS, provide_automatic_options=False)
@app.route("/<path:path>", methods=METHODS, provide_automatic_options=False)
def answer(path):
    status, is_chunked, text = answer_to(request.method, request.environ["RAW_URI"], request.headers.items(), request.get_data())
    body = iter([text[:10], text[10:]]) if is_chunked else text
    response = Response(body, status=status)
    response.headers.clear()
    for name, value in HEADERS:
        response.headers.add(name, value)
    if not is_chunked and status not in (204, 304):
        response.headers.add("Content-Length", str(len(text)))
    return response

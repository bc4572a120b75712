# Install: pip install fastapi uvicorn "pyjwt[crypto]"
# Start: uvicorn --port 3000 fastapi_app:app
import logging

import jwt
from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

from statement import read_caller

app = FastAPI()


# A middleware, because dependencies do not cover /docs and mounted applications. WebSockets need a check of their own.
@app.middleware("http")
async def check_statement(request: Request, call_next):
    statement = request.headers.get("X-Auth-Statement", "")
    # request.url.path is decoded.
    path = request.scope["raw_path"].decode("latin-1")
    try:
        # Reading the keys would block the event loop.
        request.state.caller = await run_in_threadpool(read_caller, statement, request.method, path)
    except jwt.InvalidTokenError as error:
        logging.warning("statement refused: %s", error)
        return Response(status_code=401)
    return await call_next(request)


@app.api_route("/orders/{name}", methods=["GET", "POST"])
def order(name: str, request: Request):
    return {**request.state.caller._asdict(), "method": request.method, "order": name}

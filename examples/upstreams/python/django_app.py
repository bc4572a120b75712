# Install: pip install django gunicorn uvicorn "pyjwt[crypto]"
# Start: gunicorn --bind 127.0.0.1:3000 django_app:application
# Start: uvicorn --port 3000 django_app:asgi_application
import logging
import os

import django
import jwt
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse, JsonResponse
from django.urls import path

from statement import read_caller

DEBUG = False
ALLOWED_HOSTS = ["*"]  # The gate forwards the host that the client used.
ROOT_URLCONF = __name__
MIDDLEWARE = [f"{__name__}.check_statement"]
USE_TZ = True


def raw_path(request):
    """request.path is decoded. Django's own `runserver` has no raw one: every request fails there."""
    if hasattr(request, "scope"):  # ASGI
        return request.scope["raw_path"].decode("latin-1")
    # gunicorn has RAW_URI, uWSGI and mod_wsgi REQUEST_URI.
    return (request.META.get("RAW_URI") or request.META["REQUEST_URI"]).split("?", 1)[0]


def check_statement(get_response):
    def middleware(request):
        try:
            request.caller = read_caller(request.headers.get("X-Auth-Statement", ""), request.method, raw_path(request))
        except jwt.InvalidTokenError as error:
            logging.warning("statement refused: %s", error)
            return HttpResponse(status=401)
        return get_response(request)

    return middleware


def order(request, name):
    return JsonResponse({**request.caller._asdict(), "method": request.method, "order": name})


urlpatterns = [path("orders/<name>", order)]

os.environ.setdefault("DJANGO_SETTINGS_MODULE", __name__)
django.setup()
application = get_wsgi_application()
asgi_application = get_asgi_application()

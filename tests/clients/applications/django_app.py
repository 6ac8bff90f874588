"""A site of Django over a cache backend, which has its sessions and a page:
`django_app BACKEND PORT`.
"""

import itertools
import os
import sys

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path
from django.views.decorators.cache import cache_page
from werkzeug.serving import run_simple

BACKENDS = {
    "django": "django.core.cache.backends.redis.RedisCache",
    "django-redis": "django_redis.cache.RedisCache",
}
backend, port = sys.argv[1:]
settings.configure(
    ALLOWED_HOSTS=["*"],
    CACHES={"default": {"BACKEND": BACKENDS[backend], "LOCATION": os.environ["CLIENTS_URL"]}},
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware"],
    ROOT_URLCONF=__name__,
    SECRET_KEY="of a test",
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
)
django.setup()
rendered = itertools.count(1)


def visit(request):
    request.session["visits"] = request.session.get("visits", 0) + 1
    return HttpResponse(request.session["visits"])


def leave(request):
    request.session.flush()
    return HttpResponse("left")


@cache_page(3600)
def page(_):
    return HttpResponse(next(rendered))


urlpatterns = [path("visit", visit), path("leave", leave), path("page", page)]
run_simple("127.0.0.1", int(port), get_wsgi_application(), threaded=True)

"""A site of Flask with the sessions of Flask-Session and the pages of Flask-Caching:
`flask_app PORT`.
"""

import itertools
import os
import sys

import redis
from flask import Flask, session
from flask_caching import Cache
from flask_session import Session

app = Flask(__name__)
app.config.update(
    CACHE_TYPE="RedisCache",
    CACHE_REDIS_URL=os.environ["CLIENTS_URL"],
    SESSION_TYPE="redis",
    SESSION_REDIS=redis.Redis.from_url(os.environ["CLIENTS_URL"]),
)
cache = Cache(app)
Session(app)
rendered = itertools.count(1)


@app.get("/visit")
def visit():
    session["visits"] = session.get("visits", 0) + 1
    return str(session["visits"])


@app.get("/leave")
def leave():
    session.clear()
    return "left"


@app.get("/page")
@cache.cached(timeout=3600)
def page():
    return str(next(rendered))


app.run("127.0.0.1", int(sys.argv[1]), threaded=True)

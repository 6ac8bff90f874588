"""Sessions and cached pages of web frameworks: what a visitor was answered with is what the site
knows after the server was gone, and a visitor who left is not known again.

The server is killed between the requests, since some frameworks begin another session when they
cannot read theirs. They find the server again by themselves: no request fails.
"""

import http.cookiejar
import urllib.error
import urllib.request

import pytest

from harness import APPLICATIONS, MODULE, Lost, free_port, stage

SITES = {
    "Django": [*MODULE, "django_app", "django"],
    "django-redis": [*MODULE, "django_app", "django-redis"],
    "Flask": [*MODULE, "flask_app"],
    "Express": ["node", str(APPLICATIONS / "express_app.cjs")],
}
VISITORS = 4


class Visitor:
    """Someone with a browser that keeps cookies."""

    def __init__(self, port):
        self.site = f"http://127.0.0.1:{port}"
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self.browser = urllib.request.build_opener(urllib.request.ProxyHandler({}), cookies)
        self.visits = 0

    def get(self, page):
        with self.browser.open(f"{self.site}/{page}") as response:
            return response.read().decode()

    def visit(self):
        self.visits += 1
        visits = int(self.get("visit"))
        if visits != self.visits:
            raise Lost(f"visit {self.visits} is number {visits} for the site")

    def leave(self):
        self.get("leave")
        self.visits = 0


def is_reachable(visitor):
    try:
        return visitor.get("page")
    except urllib.error.URLError:
        return False


def check(backend, site, visits, kills):
    with stage(backend) as here:
        port = free_port()
        here.spawn(*SITES[site], str(port))
        visitors = [Visitor(port) for _ in range(VISITORS)]
        here.wait_for(lambda: is_reachable(visitors[0]), "a page of the site")
        page = visitors[0].get("page")
        for number in range(1, kills + 2):
            for _ in range(max(1, visits // VISITORS // (kills + 1))):
                for visitor in visitors:
                    visitor.visit()
            # The others stay, so that their sessions are as old as the site.
            visitors[number % (VISITORS - 1)].leave()
            here.server.kill_and_start()
            if visitors[-1].get("page") != page:
                raise Lost("the page was rendered again")
        for visitor in visitors:
            visitor.visit()


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("backend", ["pool", "aof"])
def test_sessions_survive(backend, site, jobs, kills):
    check(backend, site, jobs, kills)


@pytest.mark.parametrize("site", SITES)
def test_sessions_that_are_forgotten_are_noticed(site, few_jobs):
    with pytest.raises(Lost):
        check("volatile", site, few_jobs, 1)

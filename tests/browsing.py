"""What the tests of the playground share: a process of the command line, and a browser that looks at its pages."""

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

pytest.importorskip("starlette", reason="the service's packages are not installed")
pytest.importorskip("playwright", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium")
QUIETLY = ("--port", 0, "--log", "problems", "--gather-max", 1, "--seconds", 60)  # a busy machine compiles slowly
MARKS = [
    pytest.mark.xdist_group("playground"),
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]


def start(*args, **more):
    """A process of the command line, heard on stderr; what is `None` is not in its environment."""
    command = [sys.executable, "-m", "fewstep", *map(str, args)]
    env = {name: value for name, value in (os.environ | more).items() if value is not None}
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env)


def heard(process, pattern):
    """What a process says that matches a pattern."""
    said = []
    for line in process.stderr:
        said.append(line)
        if found := re.search(pattern, line):
            return found
    raise AssertionError(f"it ended without saying {pattern}: {''.join(said)}")


def stop(process):
    process.send_signal(signal.SIGINT)
    code = process.wait(600)
    process.stderr.close()
    return code


@contextmanager
def server(*models, **more):
    """A server that is ready: its address and its process. It may be stopped meanwhile."""
    process = start("serve", *models, *QUIETLY, **more)
    url = heard(process, r'"url":"([^"]+)"')[1]
    heard(process, '"event":"ready"')
    try:
        yield url, process
    finally:
        assert process.returncode == 0 or stop(process) == 0


@pytest.fixture(scope="module")
def chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield started
        started.close()


@pytest.fixture
def browse(chromium, url):
    """Opens the playground; at the end there was no console message, no failed request and no other host."""
    noise, contexts = [], []

    def browse(tab="curves", width=1440, scheme="light", **options):
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce", **options
        )
        context.set_default_timeout(180_000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: noise.append(message.text))
        page.on("pageerror", lambda error: noise.append(str(error)))
        page.on("requestfailed", lambda request: noise.append(request.url))
        page.on("request", lambda request: request.url.startswith((url, "data:")) or noise.append(request.url))
        page.add_init_script("Math.random = (s => () => (s = (s * 16807) % 2147483647) / 2147483647)(11)")
        page.goto(f"{url}/#{tab}")
        page.wait_for_selector("body[data-ready]")
        settle(page)
        return page

    yield browse
    for context in contexts:
        context.close()
    assert not noise, noise


def settle(page):
    """Waits until all is answered and drawn."""
    page.wait_for_selector("html[data-asking='0']", state="attached")
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def faults(page):
    """What axe-core finds in a page that keeps people out: each rule with the elements that break it."""
    from axe_playwright_python.sync_playwright import Axe

    options = {"resultTypes": ["violations"], "rules": {"target-size": {"enabled": True}}}
    found = Axe().run(page, options=options).response["violations"]
    return [f"{rule['id']}: {rule['help']}: {[node['html'][:200] for node in rule['nodes']]}" for rule in found]


def told(page, place, words):
    """Waits until a place says something."""
    page.locator(f"#{place}", has_text=words).wait_for(state="attached")


@contextmanager
def held(page, pattern):
    """Holds the requests of a page back for a while, as a busy server would."""
    routes, holds = [], True
    page.route(pattern, lambda route: routes.append(route) if holds else route.continue_())
    yield
    holds = False
    for route in routes:
        route.continue_()

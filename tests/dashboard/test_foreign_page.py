"""A page of another site in the same browser cannot use the dashboard's server."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import httpx
import pytest

from epigram.runner.runs.run_page import corpus
from tests.dashboard.conftest import Server

pytestmark = pytest.mark.extended

# Ways in which a page can send a flow's name to the API; the page may only see `opaque` or an error.
TRY = """async ([url, name, mode, type]) => {
  try {
    const options = {method: 'POST', mode, headers: {'Content-Type': type}, body: JSON.stringify({name})};
    return (await fetch(url + '/api/flows/', options)).status;
  } catch (error) { return 'failed'; }
}"""
WAYS = [("cors", "application/json"), ("cors", "text/plain"), ("no-cors", "text/plain")]


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>another site</title>")

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """Yield the address of another site on this machine."""
    with HTTPServer(("127.0.0.1", 0), Page) as site:
        Thread(target=site.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{site.server_port}"
        site.shutdown()


def tried(browser: Any, page: str, server: Server, mark: str) -> list[Any]:
    """Return what a page at the address `page` gets for each way of creating a flow."""
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(page)
    got = [tab.evaluate(TRY, [server.url, f"{mark}-{n}", *way]) for n, way in enumerate(WAYS)]
    context.close()
    return got


def test_a_page_of_another_site_creates_nothing(browser: Any, server: Server, elsewhere: str) -> None:
    assert tried(browser, elsewhere, server, "foreign") == ["failed", "failed", 0]  # 0: response not readable
    assert tried(browser, server.url, server, "own")[0] == 201
    names = {flow["name"] for flow in server.ask("flows")}
    assert "own-0" in names
    assert not {name for name in names if name.startswith("foreign")}


def asked(browser: Any, server: Server, markdown: str) -> set[str]:
    """Return the external addresses that the dashboard's page of an artifact requests."""
    body = {"key": "attack", "type": "markdown", "data": f"{markdown}\n\nthe end"}
    artifact = httpx.post(f"{server.url}/api/artifacts/", json=body).raise_for_status().json()["id"]
    context, found = browser.new_context(), set[str]()
    context.route(lambda url: not url.startswith(server.url), lambda route: route.abort())
    tab = context.new_page()
    tab.on("request", lambda request: found.add(request.url))
    tab.goto(f"{server.url}/artifacts/artifact/{artifact}")
    tab.get_by_text("the end").first.wait_for()
    tab.wait_for_timeout(300)
    context.close()
    return {url for url in found if "/evil" in url}


def test_a_label_makes_the_dashboard_load_no_image(browser: Any, server: Server, elsewhere: str) -> None:
    labels = [f"![x]({elsewhere}/evil1.png)", f'<img src="{elsewhere}/evil2.png">']
    assert asked(browser, server, "\n\n".join(labels)) == {f"{elsewhere}/evil{number}.png" for number in (1, 2)}
    data = {"name": labels[0], "labels": labels, "rows": {labels[1]: 1}, "notes": labels}
    assert asked(browser, server, corpus(data)) == set()

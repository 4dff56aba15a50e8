"""A page in a real browser that is cut off from every network."""

from contextlib import contextmanager


@contextmanager
def quiet_page(browser, address, *, scheme="light", width=1280, files=False):
    """The page at this address, which must say nothing on the console, and ask for nothing else
    unless it may open `files` beside itself."""
    context = browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 900}, offline=True
    )
    page, heard = context.new_page(), []
    own = (lambda url: url.startswith("file:")) if files else (lambda url: url == address)
    page.on("console", lambda message: heard.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: heard.append(f"error: {error}"))
    page.on("request", lambda asked: None if own(asked.url) else heard.append(asked.url))
    page.goto(address)
    yield page
    context.close()
    assert heard == [], heard

"""The page in a real browser: what a person does with it, and what the server answers."""

from __future__ import annotations

import json
import shutil
import urllib.request

import pytest

import labelspace as ls
from labelspace.datasets.products import product_records
from support.served import real_server

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = sync_api.expect
expect.set_options(timeout=30_000)  # other tests run beside these
axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed"
)
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
if BROWSER is None:
    pytest.skip("no Chromium is installed", allow_module_level=True)

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
TEXT = "Wireless headphones with a charging case"
RUDE = '<img src=x onerror="document.title=1"> & "quoted"'


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    rows = list(product_records(400))
    rows += [{"text": "rude words", "labels": [RUDE, "Electronics"]}] * 8
    for name, members in (("shop", "knn,linear"), ("other", "knn")):
        ls.train(rows, members=members).save(folder / name)
    with real_server(folder / "shop", folder / "other") as (address, _):
        yield address


@pytest.fixture
def page(server):
    """Open the page; the test fails if a script fails or another host is asked."""
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        context = browser.new_context(accept_downloads=True, reduced_motion="reduce")
        page, troubles = context.new_page(), []
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda said: _is_fault(said) and troubles.append(said.text))
        page.on(
            "request",
            lambda sent: (
                sent.url.startswith((server, "data:", "blob:")) or troubles.append(sent.url)
            ),
        )
        page.goto(server)
        expect(page.locator("#model option")).to_have_count(2)
        yield page
        assert troubles == []
        browser.close()


def _is_fault(said):
    """Errors, but for requests that a test lets fail."""
    return said.type == "error" and "Failed to load resource" not in said.text


def ask(server, **body):
    sent = json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{server}/v1/models/shop/tag", sent, headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return [result["labels"] for result in json.load(answer)["results"]]


def type_text(page, text):
    page.fill("#text", text)
    page.wait_for_selector("#found li")


def test_labels_appear_and_are_explained_in_the_text(page, server):
    type_text(page, TEXT)
    expected = ask(server, text=TEXT, k=10)[0]
    # A name that is a path is shown as its last level, with those above it below.
    levels = [label["name"].split(" > ") for label in expected]
    assert page.locator("#found .title").all_inner_texts() == [each[-1] for each in levels]
    above = [" › ".join(each[:-1]) for each in levels if len(each) > 1]
    assert page.locator("#found .path").all_inner_texts() == above
    page.click("#found .name >> nth=0")
    page.wait_for_selector(".why .words li")
    marks = {word.lower() for word in page.locator("#marks mark").all_inner_texts()}
    assert marks
    assert marks <= set(TEXT.lower().split())
    assert page.locator("#marks").inner_text() == TEXT
    # The label space shows the text among its labels.
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(page.locator("#map-status")).to_have_text("", timeout=30_000)
    # Sliders choose among the labels without another request.
    page.locator("#threshold").fill("1")
    expect(page.locator("#found li")).to_have_count(0)
    expect(page.locator("#marks mark")).to_have_count(0)  # they explain a label that is not shown
    assert "No label has a score of 1.00" in page.inner_text("#status")
    page.locator("#threshold").fill("0")
    page.locator("#k").fill("2")
    expect(page.locator("#found > li")).to_have_count(2)
    # A label that is accepted becomes an example.
    page.click("#found .yes >> nth=0")
    page.click("#keep")
    assert "Kept" in page.inner_text("#status")
    with page.expect_download() as download:
        page.click("#export")
    example = json.loads(download.value.path().read_text(encoding="utf-8"))
    assert example == {"text": TEXT, "labels": [expected[0]["name"]]}


def test_judging_keeps_the_focus_and_sliders_keep_the_explanation(page):
    type_text(page, TEXT)
    page.click("#found .name >> nth=0")
    page.wait_for_selector(".why .words li")
    said = page.locator(".why >> nth=0").inner_text()
    asked = []
    page.on("request", lambda sent: asked.append(sent.url))
    page.focus("#found .no >> nth=1")
    page.keyboard.press("Enter")
    line = page.locator("#found > li").nth(1)
    expect(line).to_have_class("rejected")
    expect(line.locator(".no")).to_be_focused()
    expect(line.locator(".no")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    expect(line).not_to_have_class("rejected")
    expect(line.locator(".no")).to_have_attribute("aria-pressed", "false")
    expect(page.locator("#keep")).to_have_text("Keep 1 accepted label as an example")
    page.locator("#k").fill("3")
    expect(page.locator("#found > li")).to_have_count(3)
    assert page.locator(".why >> nth=0").inner_text() == said
    assert asked == []


def test_names_are_never_markup(page):
    type_text(page, "rude words")
    assert RUDE in page.locator("#found .title").all_inner_texts()
    assert page.title() == "labelspace"


def test_two_models_side_by_side_and_a_server_error(page):
    type_text(page, TEXT)
    page.select_option("#other", "other")
    page.wait_for_selector("#other-found li")
    assert page.inner_text("#other-title") == "other"
    assert page.inner_text("#own-title") == "shop"
    expect(page.locator("#space")).to_be_hidden()  # the lists have its place
    page.route("**/tag", lambda route: route.fulfill(
        status=503, content_type="application/problem+json", body='{"detail": "too many requests"}'
    ))  # fmt: skip
    page.fill("#text", "another text")
    expect(page.locator("#status")).to_have_text(
        "Too many requests. The labels below are those of the last answer."
    )


@pytest.mark.parametrize("kind", ["jsonl", "csv", "txt"])
def test_a_file_comes_back_with_the_labels_of_the_api(page, server, tmp_path, kind):
    texts = [f"{TEXT}, number {i}" for i in range(70)]
    content = {
        "jsonl": "".join(json.dumps({"id": i, "text": t}) + "\n" for i, t in enumerate(texts)),
        "csv": "id,text\n" + "".join(f'{i},"{t}"\n' for i, t in enumerate(texts)),
        "txt": "".join(f"{t}\n" for t in texts),
    }[kind]
    (tmp_path / f"new.{kind}").write_text(content, encoding="utf-8")
    page.click("nav [data-to=files]")
    page.set_input_files("#file", tmp_path / f"new.{kind}")
    page.fill("#job-k", "3")
    page.click("#run")
    page.wait_for_selector("#download:not([hidden])")
    assert page.inner_text("#job-status") == "All 70 texts tagged."
    with page.expect_download() as download:
        page.click("#download")
    assert download.value.suggested_filename == f"new.tagged.{kind}"
    lines = download.value.path().read_text(encoding="utf-8").splitlines()
    expected = ask(server, texts=texts, k=3)
    if kind == "jsonl":
        assert [json.loads(line)["labels"] for line in lines] == expected
        assert json.loads(lines[5])["id"] == 5
    else:
        names = ["|".join(label["name"] for label in labels) for labels in expected]
        rows = lines[1:] if kind == "csv" else lines
        assert all(own in line for own, line in zip(names, rows, strict=True))


def test_a_file_waits_for_a_busy_server(page, tmp_path):
    (tmp_path / "new.txt").write_text(f"{TEXT}\n" * 3, encoding="utf-8")
    busy = {"status": 503, "headers": {"Retry-After": "1"}, "body": '{"detail": "busy"}'}
    page.route("**/tag", lambda route: route.fulfill(**busy), times=1)
    page.click("nav [data-to=files]")
    page.set_input_files("#file", tmp_path / "new.txt")
    page.click("#run")
    expect(page.locator("#job-status")).to_have_text("The server is busy; waiting…")
    expect(page.locator("#job-status")).to_have_text("All 3 texts tagged.")
    # Cancelling ends the wait.
    page.route("**/tag", lambda route: route.fulfill(**busy))
    page.click("#run")
    expect(page.locator("#job-status")).to_have_text("The server is busy; waiting…")
    page.click("#cancel")
    expect(page.locator("#job-status")).to_contain_text("Cancelled after 0 texts")


def test_a_token_is_asked_for_and_a_wrong_one_is_reported(page):
    def check(route):
        if route.request.headers.get("authorization") == "Bearer right":
            route.continue_()
        else:
            route.fulfill(status=401, body='{"detail": "the token is not known"}')

    page.route("**/v1/**", check)
    page.reload()
    page.fill("#token", "wrong")
    page.press("#token", "Enter")
    expect(page.locator("#sign-in-error")).to_have_text("The token is not known.")
    page.fill("#token", "right")
    page.press("#token", "Enter")
    expect(page.locator("#model option")).to_have_count(2)


def test_zooming_in_never_ends_in_an_empty_map(page):
    page.click("nav [data-to=map]")
    expect(page.locator("#map-status")).to_have_text("", timeout=30_000)
    box = page.locator("#map").bounding_box()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.45 * box["height"])
    for _ in range(40):
        page.mouse.wheel(0, -240)
    page.wait_for_timeout(500)
    drawn = """() => {
        const map = document.querySelector("#map"), pen = map.getContext("2d");
        return pen.getImageData(0, 0, map.width, map.height).data.some((part) => part > 0);
    }"""
    assert page.evaluate(drawn)


def test_a_broken_file_is_named_with_its_line(page, tmp_path):
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\nnot json\n', encoding="utf-8")
    page.click("nav [data-to=files]")
    page.set_input_files("#file", tmp_path / "bad.jsonl")
    expect(page.locator("#job-status")).to_contain_text("line 2")
    assert page.is_disabled("#run")


def test_search_centres_a_label_of_the_map_and_the_vocabulary_leads_there(page):
    page.click("nav [data-to=map]")
    expect(page.locator("#map-status")).to_have_text("", timeout=30_000)
    page.fill("#query", "headphones")
    page.press("#query", "Enter")
    page.wait_for_selector("#chosen:not([hidden])")
    assert "Headphones" in page.inner_text("#name")
    page.click("nav [data-to=labels]")
    page.fill("#find", "frying")
    expect(page.locator("#hits button").first).to_contain_text("Frying")
    page.click("#hits button >> nth=0")
    page.wait_for_selector("#label:not([hidden])")
    similar = page.locator("#label ul button").first
    name = similar.locator("span").first.inner_text()
    similar.click()
    expect(page.locator("#label h3")).to_have_text(name)
    page.click("#hits button >> nth=0")
    expect(page.locator("#label h3")).to_contain_text("Frying")
    page.click("#label p button")
    assert page.get_attribute("body", "data-view") == "map"
    assert "Frying" in page.inner_text("#name")


def test_the_card_shows_figures_and_their_calibration(page):
    page.click("nav [data-to=card]")
    expect(page.locator("#card-content")).to_contain_text("fusion")
    expect(page.locator(".figures h3")).to_have_text(
        "Figures on 41 examples held out of the training data"
    )
    assert page.locator(".figures > table thead").inner_text().split() == [
        "percent",
        "@1",
        "@3",
        "@5",
    ]
    plot = page.locator(".figures svg")
    # The picture has a text that gives the same numbers as the table below it.
    page.click(".figures summary")
    rows = page.locator(".figures details tbody tr")
    assert plot.locator("circle").count() == rows.count() > 0
    score, right, labels = rows.nth(0).locator("td").all_inner_texts()
    said = f"of {labels} labels with a mean score of {score}, {right} are right"
    assert said in plot.get_attribute("aria-label")
    page.evaluate("document.querySelector('#model').value = 'other'")
    page.dispatch_event("#model", "change")
    expect(page.locator("#card-title")).to_have_text("other")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_view_has_a_serious_fault_of_accessibility(page, scheme):
    page.emulate_media(color_scheme=scheme)
    type_text(page, TEXT)
    page.click("#found .name >> nth=0")
    page.wait_for_selector(".why .words li")
    for view in ("tag", "files", "map", "labels", "card"):
        page.click(f"nav [data-to={view}]")
        page.wait_for_timeout(300)
        found = axe.Axe().run(page).response["violations"]
        serious = [each for each in found if each["impact"] in ("serious", "critical")]
        shown = [(each["id"], [node["html"][:200] for node in each["nodes"]]) for each in serious]
        assert shown == [], (view, shown)


def test_a_server_that_is_gone_is_reported_and_the_text_is_kept(page):
    type_text(page, TEXT)
    page.route("**/*", lambda route: route.abort())
    page.fill("#text", "typed while it is away")
    page.wait_for_selector("#alert:not([hidden])")
    assert "cannot be reached" in page.inner_text("#alert")
    page.unroute("**/*")
    page.wait_for_selector("#alert", state="hidden")
    assert page.input_value("#text") == "typed while it is away"
